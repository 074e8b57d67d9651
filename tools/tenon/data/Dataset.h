// Samples with labels, as `accuracy` and `quantize` take them: from an npz, lines of JSON or a
// folder of pictures, matched to the inputs of a model by name and read in batches that the model
// takes. It relies on no model, only on what its inputs are; everything that is wrong with the data
// is said when it is opened.

#pragma once

#include "engine/Plan.h"
#include "runtime/tensors/Tensor.h"
#include "support/Result.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool {

class SampleSource;

/// The key of a quantized model's metadata that says which samples it was calibrated with: a
/// fingerprint of these.
inline constexpr const char *kCalibrationKey = "tenon.calibration_data";

/// An input of a model, which a data set has to fill.
struct WantedInput {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims; ///< -1 where free
  /// What dim 0 may be; both are dims[0] where that is fixed.
  int64_t leastRows = 1;
  int64_t mostRows = std::numeric_limits<int64_t>::max();
  bool operator==(const WantedInput &) const = default;
};

/// The inputs of a plan, in its order.
std::vector<WantedInput> wantedInputs(const engine::Plan &plan);

/// What a model carries for people's pictures, as its metadata have it; empty where it carries
/// none.
struct ModelHints {
  std::string preprocessing;
  std::string classes;
};

/// Samples in a row, as one run of the model takes them.
struct Batch {
  std::vector<Tensor> inputs; ///< in the order of the model's
  size_t first = 0;
  /// Those that count: a model of a fixed batch gets the last one again and again to fill it.
  size_t samples = 0;
  /// Of the batch: more than `samples` where it was filled; 1 where a sample is a whole input.
  size_t rows = 1;
};

class Dataset {
public:
  /// An npz: an array for each input, by its name (a model of one input takes the only array,
  /// whatever its name), and `labels`, `label`, `targets` or `y`. Dim 0 of each counts the samples;
  /// an array of one dim more than its input holds a whole input for each sample.
  /// Text: a line of JSON for each sample, {"x": [...], "label": 0}, without the dim of the batch.
  /// A folder: pictures, in a subfolder for each class where they have labels, and how they become
  /// inputs in preprocessing.json or else as the model's hints say.
  static Result<Dataset> open(const std::string &path, std::vector<WantedInput> inputs,
                              const ModelHints &hints = {});
  Dataset(Dataset &&) noexcept;
  Dataset &operator=(Dataset &&) noexcept;
  ~Dataset();

  const std::string &path() const { return file; }
  std::span<const WantedInput> inputs() const { return wanted; }
  size_t samples() const;
  /// The samples from `first` on: at most `most`, fewer where the model takes fewer, where the data
  /// end, or where the next sample has other dims.
  Result<Batch> read(size_t first, size_t most) const;
  /// A row for each sample; none where the data have none.
  const std::optional<Tensor> &labels() const;
  /// What is odd about the data but no error, for people.
  std::span<const std::string> warnings() const { return notes; }

  /// Which samples these are, by the bytes that the model is given, whatever file they came from:
  /// hashes of some of the first `count`, as text for a model's metadata.
  Result<std::string> fingerprint(size_t count) const;
  /// The share of the samples of a fingerprint that are among these (0 to 1).
  Result<double> shareOf(std::string_view fingerprint) const;

private:
  Dataset(std::string path, std::vector<WantedInput> inputs, std::unique_ptr<SampleSource> source);
  Status check();
  Status checkInput(size_t input, bool &allEqual);
  Result<uint64_t> hashOf(size_t sample) const;

  std::string file;
  std::vector<WantedInput> wanted;
  std::unique_ptr<SampleSource> samplesOf;
  std::vector<std::string> notes;
};

} // namespace tenon::tool

// What a form of data sets has to say of its samples; Dataset does the rest. It relies on the
// source having matched itself to the model's inputs.

#pragma once

#include "runtime/tensors/Tensor.h"
#include "tools/tenon/data/Dataset.h"

#include <fmt/format.h>

namespace tenon::tool {

class SampleSource {
public:
  virtual ~SampleSource() = default;

  virtual size_t samples() const = 0;
  /// Dims of the part of one sample that goes into this input: those of the input, or without its
  /// dim 0 where samples are rows of it.
  virtual std::span<const int64_t> dimsOf(size_t input, size_t sample) const = 0;
  /// `count` samples of the same dims from `first` on, densely.
  virtual Status read(size_t input, size_t first, size_t count, MutableBytes out) const = 0;
  /// Whether values can be not finite; else they need no look.
  virtual bool needsCheck() const { return true; }

  std::optional<Tensor> labels;
  std::vector<std::string> notes;
};

/// Each form of data in a file of its own.
Result<std::unique_ptr<SampleSource>> openNpz(const std::string &path,
                                              std::span<const WantedInput> wanted);
Result<std::unique_ptr<SampleSource>> openJsonLines(const std::string &path,
                                                    std::span<const WantedInput> wanted);
Result<std::unique_ptr<SampleSource>>
openPictures(const std::string &path, std::span<const WantedInput> wanted, const ModelHints &hints);

/// Names that the labels of a data set go by.
bool isLabelName(std::string_view name);

/// Checks one array of `samples` rows of `row` dims against an input, and says what is wrong with
/// it: another rank, another dim, other layout or type. `where` is "x.npz: array 'x'".
Status checkRows(const WantedInput &input, DType dtype, std::span<const int64_t> row,
                 const std::string &where);
Status badData(std::string_view message, std::string_view hint);

} // namespace tenon::tool

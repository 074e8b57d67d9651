// The data that a model's requests are compared with: an npz with arrays called as inputs or
// outputs, and the features that are made of their rows, as docs/guides/drift.md tells. Read-only
// once it is made.

#pragma once

#include "runtime/tensors/Tensor.h"
#include "server/ipc/ModelInfo.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon::server {

/// Of a sample: below, the distributions of PSI and KS are not those that thresholds follow from.
inline constexpr uint64_t kMinRows = 30;

/// One column of the reference. A window is counted in cells: below the first value, at it, between
/// it and the next, and so on up to above the last. From these counts follow exactly the bins of
/// PSI, the largest distance of KS and what is out of range, so no value of a window is kept.
struct DriftFeature {
  std::string name;
  uint64_t rows = 0;          ///< of the reference, missing ones too
  std::vector<double> values; ///< of the reference: distinct, ascending
  std::vector<uint64_t> upTo; ///< rows of the reference up to each value
  bool isInput = true;
  bool hasOwnBins = false;     ///< few values: those in `own` have a bin each
  bool isRepeated = false;     ///< its values come again, so that new and lost ones are counted
  std::vector<uint32_t> own;   ///< places in `values`
  std::vector<uint32_t> edges; ///< the same: the last of each bin of all others but the last bin
  std::vector<uint64_t> bins;  ///< rows of the reference in each bin

  /// Where a value is to be looked for: the range of `values` between them is in as many buckets,
  /// each with the place of its first.
  std::vector<uint32_t> buckets;
  double bucketScale = 0;

  void fillBuckets();
  size_t bucketOf(double value) const;
  uint64_t present() const { return upTo.empty() ? 0 : upTo.back(); }
  size_t cells() const { return 2 * values.size() + 1; }
  size_t cellOf(double value) const;
  uint64_t times(size_t value) const { return upTo[value] - (value > 0 ? upTo[value - 1] : 0); }
  /// Rows in each bin, of rows in each cell.
  std::vector<uint64_t> binsOf(std::span<const uint32_t> counts) const;
};

/// An input or output whose rows are monitored.
struct MonitoredPort {
  bool isInput = true;
  size_t place = 0; ///< among the inputs or outputs of the model
  DType dtype = DType::F32;
  bool isWhole = false;         ///< a request is one row; else dim 0 counts rows
  std::vector<int64_t> rowDims; ///< of the reference
  size_t rowElements = 0;
  bool isSummarized = false; ///< a row becomes four figures, whatever its length; else each of its
                             ///< elements is a feature
  size_t firstFeature = 0, features = 0;
};

class DriftReference {
public:
  /// TN0840 where the file cannot be read or does not fit the model.
  static Result<DriftReference> read(const std::string &path, const ModelPorts &model);
  /// The same of arrays; `where` names them in errors.
  static Result<DriftReference> make(std::span<const Tensor> arrays, const ModelPorts &model,
                                     std::string_view where);

  std::span<const MonitoredPort> ports() const { return monitored; }
  std::span<const DriftFeature> features() const { return columns; }
  uint64_t rows() const { return maxRows; }

private:
  Status add(const Tensor &given, const MonitoredPort &port, std::string_view where);

  std::vector<MonitoredPort> monitored;
  std::vector<DriftFeature> columns;
  uint64_t maxRows = 0;
};

/// The features of one row, which has elements: `port.features` numbers, NaN where one is missing.
void featuresOfRow(const MonitoredPort &port, Bytes elements, double *features);

} // namespace tenon::server

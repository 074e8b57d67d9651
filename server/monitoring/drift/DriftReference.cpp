// Names, bins and figures are those of bindings/python/tenon/drift.py; test/serving/watching.py
// holds both to equal numbers.

#include "server/monitoring/drift/DriftReference.h"

#include "runtime/tensors/Npy.h"
#include "support/Shape.h"
#include "support/text/NearestName.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace tenon::server {
namespace {

constexpr size_t kMaxColumns = 64;
constexpr double kMinShare = 0.05; // of the reference, for a value to have a bin of its own
constexpr double kMinOwnRows = 20; // the same
constexpr double kMinGroup = 0.1;  // for neighbours among the rarer values to have one together
constexpr size_t kMaxValues = 20;  // of a feature whose bins are its values
constexpr size_t kBins = 10;
/// Values of all features together: some hundred MiB with what is counted.
constexpr uint64_t kMaxNumbers = 4 << 20;
/// Of arrays while they are read.
constexpr uint64_t kMaxReferenceBytes = uint64_t(2) << 30;

Status bad(std::string_view what, std::string_view hint) {
  return Status::error(ErrorId::BadDriftReference, what, hint);
}

/// Arrays of labels stand in data sets beside the inputs.
bool isLabelName(std::string_view name) {
  return name == "labels" || name == "label" || name == "targets" || name == "y";
}

uint64_t sumOf(std::span<const uint32_t> counts) {
  uint64_t sum = 0;
  for (uint32_t count : counts) {
    sum += count;
  }
  return sum;
}

/// `name[1,2]` of the elements of a row, or the names of its four figures.
std::vector<std::string> namesOf(const std::string &name, const MonitoredPort &port) {
  if (port.isSummarized) {
    return {name + ".mean", name + ".std", name + ".min", name + ".max"};
  }
  if (port.rowElements == 1 && port.rowDims.size() <= 1) {
    return {name};
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < port.rowElements; ++i) {
    std::vector<size_t> index(port.rowDims.size());
    size_t rest = i;
    for (size_t d = index.size(); d-- > 0;) {
      index[d] = rest % static_cast<size_t>(port.rowDims[d]);
      rest /= static_cast<size_t>(port.rowDims[d]);
    }
    names.push_back(fmt::format("{}[{}]", name, fmt::join(index, ",")));
  }
  return names;
}

} // namespace

void DriftFeature::fillBuckets() {
  constexpr size_t kMaxBuckets = 1 << 14;
  buckets.assign(std::min(values.size(), kMaxBuckets) + 1, 0);
  double width = values.empty() ? 0 : values.back() - values.front();
  bucketScale =
      std::isfinite(width) && width > 0 ? static_cast<double>(buckets.size() - 1) / width : 0;
  if (!std::isfinite(bucketScale)) {
    bucketScale = 0; // the difference is too small to divide by
  }
  for (double value : values) {
    ++buckets[bucketOf(value) + 1];
  }
  for (size_t i = 1; i < buckets.size(); ++i) {
    buckets[i] += buckets[i - 1];
  }
}

namespace {

DriftFeature featureOf(std::string name, std::vector<double> column) {
  DriftFeature feature;
  feature.name = std::move(name);
  feature.rows = column.size();
  std::erase_if(column, [](double each) { return std::isnan(each); });
  std::sort(column.begin(), column.end());
  for (size_t i = 0; i < column.size(); ++i) {
    if (i + 1 == column.size() || column[i + 1] != column[i]) {
      feature.values.push_back(column[i]);
      feature.upTo.push_back(i + 1);
    }
  }
  feature.fillBuckets();
  feature.hasOwnBins = feature.values.size() <= kMaxValues;
  feature.isRepeated = feature.hasOwnBins || 2 * feature.values.size() <= column.size();
  double present = static_cast<double>(column.size()), rows = 0;
  for (size_t i = 0; feature.hasOwnBins && i < feature.values.size(); ++i) {
    double count = static_cast<double>(feature.times(i));
    if (count >= std::max(kMinOwnRows, kMinShare * present)) {
      feature.own.push_back(static_cast<uint32_t>(i));
      continue;
    }
    rows += count;
    if (rows >= std::max(1.0, kMinGroup * present)) {
      feature.edges.push_back(static_cast<uint32_t>(i));
      rows = 0;
    }
  }
  if (feature.hasOwnBins && !feature.edges.empty()) {
    feature.edges.pop_back(); // the last group has all that is above
  }
  for (size_t i = 1; !feature.hasOwnBins && i < kBins; ++i) {
    // At a value, so that one that is frequent lies in one bin.
    double edge = column[static_cast<size_t>((present - 1) * (static_cast<double>(i) / kBins))];
    uint32_t place =
        static_cast<uint32_t>(std::lower_bound(feature.values.begin(), feature.values.end(), edge) -
                              feature.values.begin());
    if (feature.edges.empty() || feature.edges.back() != place) {
      feature.edges.push_back(place);
    }
  }
  std::vector<uint32_t> counts(feature.cells());
  for (size_t i = 0; i < feature.values.size(); ++i) {
    counts[2 * i + 1] = static_cast<uint32_t>(feature.times(i));
  }
  feature.bins = feature.binsOf(counts);
  return feature;
}

/// Whether an array of `dims` has rows of the port: as dim 0 of it, or each a whole tensor of it.
bool fits(const ModelPort &port, const std::vector<int64_t> &dims, bool isWhole) {
  if (dims.size() != port.maxDims.size() + (isWhole ? 1 : 0) || dims.empty()) {
    return false;
  }
  for (size_t i = 1; i < dims.size(); ++i) {
    size_t d = isWhole ? i - 1 : i;
    if (dims[i] < port.minDims[d] || dims[i] > port.maxDims[d]) {
      return false;
    }
  }
  return true;
}

/// Whether values of an array can be compared with those of a port: whole numbers of any type, or
/// floating-point ones that are not narrower, which are rounded to its type.
bool isReadAs(DType array, DType port) {
  return array == port
             ? isNumeric(port)
             : isNumeric(array) && isNumeric(port) && isFloating(array) == isFloating(port) &&
                   (!isFloating(port) || bitWidth(array) > bitWidth(port));
}

/// The same values in the type of a port.
Result<Tensor> convert(const Tensor &array, DType dtype, std::string_view where) {
  TENON_ASSIGN(Tensor converted, Tensor::create(array.name, dtype, array.dims));
  for (int64_t i = 0; i < array.elements(); ++i) {
    double value = elementAsDouble(array, i);
    if (!isFloating(dtype) && std::abs(value) >= std::ldexp(1.0, int(bitWidth(dtype)) - 1)) {
      return bad(fmt::format("{}: '{}' has {}, which {} does not have", where, array.name, value,
                             nameOf(dtype)),
                 "save the array with the type that the model has");
    }
    setElement(converted, i, value);
  }
  return converted;
}

/// The port that an array is called after.
Result<MonitoredPort> portOf(const ModelPorts &model, const std::string &name, DType dtype,
                             const std::vector<int64_t> &dims, std::string_view where) {
  std::vector<std::string> names;
  for (const std::vector<ModelPort> *ports : {&model.inputs, &model.outputs}) {
    for (size_t i = 0; i < ports->size(); ++i) {
      const ModelPort &port = (*ports)[i];
      names.push_back(port.name);
      if (port.name != name) {
        continue;
      }
      if (!isReadAs(dtype, port.dtype)) {
        return bad(fmt::format("{}: '{}' is {}, but the model has {}", where, name, nameOf(dtype),
                               nameOf(port.dtype)),
                   "save the array with the shape that the model has");
      }
      MonitoredPort monitored = {
          .isInput = ports == &model.inputs, .place = i, .dtype = port.dtype, .rowDims = {}};
      monitored.isWhole = fits(port, dims, true);
      if (!monitored.isWhole && !fits(port, dims, false)) {
        return bad(fmt::format("{}: '{}' is {}, whose rows do not fit the model", where, name,
                               formatDims(dims)),
                   "dim 0 counts the rows; the other dims must be the model's");
      }
      monitored.rowDims.assign(dims.begin() + 1, dims.end());
      return monitored;
    }
  }
  return bad(fmt::format("{}: '{}' is neither an input nor an output of the model", where, name),
             didYouMean(name, names, fmt::format("it has {}", fmt::join(names, ", "))));
}

} // namespace

size_t DriftFeature::bucketOf(double value) const {
  double at = (value - values.front()) * bucketScale,
         last = static_cast<double>(buckets.size() - 2);
  return at > 0 ? static_cast<size_t>(std::min(at, last))
                : 0; // not a number where infinities are subtracted
}

size_t DriftFeature::cellOf(double value) const {
  // The place of a value of evenly spread ones is nearly known; from there on by halves, without
  // branches: values are not to be predicted.
  size_t bucket = bucketOf(value), place = buckets[bucket], count = buckets[bucket + 1] - place;
  while (count > 0) {
    size_t half = count / 2;
    bool isAbove = values[place + half] < value;
    place = __builtin_unpredictable(isAbove) ? place + half + 1 : place;
    count = __builtin_unpredictable(isAbove) ? count - half - 1 : half;
  }
  return 2 * place + (place < values.size() && values[place] == value ? 1 : 0);
}

std::vector<uint64_t> DriftFeature::binsOf(std::span<const uint32_t> counts) const {
  std::vector<uint64_t> found;
  for (uint32_t place : own) {
    found.push_back(counts[2 * size_t(place) + 1]);
  }
  size_t start = 0, nextOwn = 0;
  for (size_t bin = 0; bin <= edges.size(); ++bin) {
    size_t end = bin < edges.size() ? 2 * size_t(edges[bin]) + 2 : counts.size();
    found.push_back(sumOf(counts.subspan(start, end - start)));
    for (; nextOwn < own.size() && 2 * size_t(own[nextOwn]) + 1 < end; ++nextOwn) {
      found.back() -= found[nextOwn];
    }
    start = end;
  }
  return found;
}

Status DriftReference::add(const Tensor &given, const MonitoredPort &monitoredPort,
                           std::string_view where) {
  MonitoredPort port = monitoredPort;
  Tensor converted;
  if (given.dtype != port.dtype) {
    TENON_ASSIGN(converted, convert(given, port.dtype, where));
  }
  const Tensor &array = given.dtype != port.dtype ? converted : given;
  uint64_t rows = static_cast<uint64_t>(array.dims[0]),
           elements = static_cast<uint64_t>(array.elements());
  if (rows < kMinRows || elements == 0) {
    return bad(fmt::format("{}: '{}' has {} rows", where, array.name, elements == 0 ? 0 : rows),
               fmt::format("give at least {}, and preferably several times the size of a window",
                           kMinRows));
  }
  port.rowElements = elements / rows;
  port.isSummarized = port.rowElements > kMaxColumns;
  port.features = port.isSummarized ? 4 : port.rowElements;
  port.firstFeature = columns.size();
  std::vector<std::vector<double>> found(port.features, std::vector<double>(rows));
  std::vector<double> row(port.features);
  uint64_t rowBytes = array.bytes().size() / rows;
  for (uint64_t r = 0; r < rows; ++r) {
    featuresOfRow(port, array.bytes().subspan(r * rowBytes, rowBytes), row.data());
    for (size_t i = 0; i < row.size(); ++i) {
      found[i][r] = row[i];
    }
  }
  std::vector<std::string> names = namesOf(array.name, port);
  for (size_t i = 0; i < names.size(); ++i) {
    columns.push_back(featureOf(names[i], std::move(found[i])));
    columns.back().isInput = port.isInput;
    if (columns.back().present() == 0) {
      return bad(fmt::format("{}: '{}' is NaN in all rows", where, names[i]),
                 "give data with values, or leave out the array");
    }
  }
  maxRows = std::max(maxRows, rows);
  monitored.push_back(std::move(port));
  return Status::ok();
}

Result<DriftReference> DriftReference::make(std::span<const Tensor> arrays, const ModelPorts &model,
                                            std::string_view where) {
  DriftReference reference;
  for (const Tensor &array : arrays) {
    TENON_ASSIGN(MonitoredPort port, portOf(model, array.name, array.dtype, array.dims, where));
    TENON_TRY(reference.add(array, port, where));
  }
  return reference.monitored.empty()
             ? Result<DriftReference>(
                   bad(fmt::format("{} has no array for the model", where),
                       "save one for each input and output to monitor, under its name"))
             : reference;
}

Result<DriftReference> DriftReference::read(const std::string &path, const ModelPorts &model) {
  uint64_t numbers = 0, bytes = 0;
  std::vector<std::string> passedOver;
  AcceptArray accept = [&](const std::string &name, const NpyHeader &header) -> Status {
    Result<MonitoredPort> port = portOf(model, name, header.dtype, header.dims, path);
    if (!port.isOk() && isLabelName(name)) {
      passedOver.push_back(name);
      return Status::ok();
    }
    TENON_TRY(port.takeStatus());
    uint64_t rows = static_cast<uint64_t>(header.dims[0]),
             elements = rows == 0 ? 0 : header.dataBytes / (bitWidth(header.dtype) / 8) / rows;
    numbers += rows * std::min<uint64_t>(elements > kMaxColumns ? 4 : elements, kMaxColumns);
    bytes += header.dataBytes;
    bool isTaken = numbers <= kMaxNumbers && bytes <= kMaxReferenceBytes;
    return isTaken
               ? Status::ok()
               : bad(fmt::format("{} has more than {} numbers to compare, or more than {} bytes",
                                 path, kMaxNumbers, kMaxReferenceBytes),
                     "give fewer rows: a few times the size of a window is enough");
  };
  Result<std::vector<Tensor>> arrays = readNpz(path, accept);
  if (!arrays.isOk()) {
    Status status = arrays.takeStatus();
    return status.id() == ErrorId::BadDriftReference ? std::move(status)
                                                     : bad(status.message(), status.hint());
  }
  std::erase_if(*arrays, [&](const Tensor &each) {
    return std::find(passedOver.begin(), passedOver.end(), each.name) != passedOver.end();
  });
  return make(*arrays, model, path);
}

} // namespace tenon::server

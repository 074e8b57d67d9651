// Rows that nobody ran alone are those that were, over and over.

#include "server/worker/SecondLook.h"

#include "runtime/tensors/Seeded.h"
#include "runtime/tensors/Tensor.h"
#include "server/ipc/TensorBox.h"
#include "server/worker/LoadedModel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

namespace tenon::server {
namespace {

/// Rows of the second look that differ.
constexpr uint64_t kSeenRows = 8;
/// Of them, one after the other: scales of floating-point numbers.
constexpr double kAmplitudes[] = {1, 0.01, 1, 100};
/// Bytes that the second look may take where nobody says so.
constexpr uint64_t kUsualMemory = 256 << 20;
/// What filling, running and comparing a row moves at least, in bytes a second.
constexpr double kLookSpeed = 200e6;
/// Of rows that differ in length, where the typical length is too short to differ.
constexpr int64_t kMinLength = 16;

/// What a channel counts at least, as a share of the output's largest: sums of large numbers leave
/// no more of small ones.
constexpr double kLeastChannel = 1. / 400;

using Tensors = std::vector<Tensor>;
using Clock = std::chrono::steady_clock;

class Look {
public:
  Look(const ModelPorts &ports, const EngineRecord &record, const BatchPolicy &policy,
       const LookPlan &plan)
      : ports(ports), record(record), policy(policy), plan(plan) {}

  Status open(const tenon_engine *engine, unsigned threads) {
    tenon_session_options options = {};
    options.struct_size = sizeof(options);
    options.threads = threads;
    tenon_session *opened = nullptr;
    TENON_TRY(takeStatus(tenon_session_create(engine, &options, &opened)));
    session.reset(opened);
    tenon_memory_use use = {};
    use.struct_size = sizeof(use);
    TENON_TRY(takeStatus(tenon_session_memory(opened, &use)));
    return use.state == 0 ? Status::ok() : refusedBatch("it keeps a state from run to run");
  }

  Status look() {
    size_t count = std::min(kSeenRows, plan.maxRows);
    std::vector<std::optional<int64_t>> lengths = lengthsOf(count);
    std::vector<Tensors> rows, alone;
    uint64_t rowBytes = inputBytes(); // of one row in a batch, with what the session takes for it
    double rowSeconds = static_cast<double>(rowBytes) / kLookSpeed;
    while (rows.size() < count && isTime(rowSeconds) &&
           2 * (rows.size() + 1) * rowBytes < memory()) {
      Clock::time_point start = Clock::now();
      TENON_ASSIGN(Tensors row, makeRow(rows.size(), lengths[rows.size()]));
      TENON_ASSIGN(Tensors result, run(row));
      rowSeconds =
          std::max(rowSeconds, std::chrono::duration<double>(Clock::now() - start).count());
      rowBytes = std::max(rowBytes, bytesOf(row) + bytesOf(result) + sessionBytes());
      rows.push_back(std::move(row));
      alone.push_back(std::move(result));
    }
    findMagnitudes(alone);
    for (uint64_t size : std::set<uint64_t>{2, 3, count, plan.maxRows}) {
      bool fits = size <= plan.maxRows && !rows.empty() && (rows.size() >= 2 || size == 2) &&
                  isTime(static_cast<double>(size) * rowSeconds) &&
                  (size + rows.size()) * rowBytes < memory();
      if (!fits) {
        continue;
      }
      TENON_ASSIGN(Tensors batched, concatenate(rows, size, lengths[0]));
      TENON_ASSIGN(Tensors results, run(batched));
      for (size_t r = 0; r < size; ++r) {
        TENON_TRY(compareRow(alone, (size - 1 - r) % alone.size(), results, r, size));
      }
    }
    return Status::ok();
  }

  double difference() const { return largest; }

  /// Whether one row can be run alone.
  bool isAffordable() const {
    uint64_t bytes = inputBytes();
    return isTime(static_cast<double>(bytes) / kLookSpeed) && 2 * bytes < memory();
  }

private:
  uint64_t memory() const { return policy.memory > 0 ? policy.memory : kUsualMemory; }

  /// Of one row, the longest where they differ in length.
  uint64_t inputBytes() const {
    uint64_t sum = 0;
    for (const ModelPort &port : ports.inputs) {
      uint64_t elements = 1;
      for (int64_t dim : rowDims(port, lengthsOf(1)[0])) {
        elements *= static_cast<uint64_t>(dim);
      }
      sum += elements * bitWidth(port.dtype) / 8;
    }
    return sum;
  }

  bool isPadded() const { return !plan.paddedDim.empty(); }

  /// Dims of one row; `length` is that of the padded dim.
  std::vector<int64_t> rowDims(const ModelPort &port, std::optional<int64_t> length) const {
    // Where a dim is computed from others, all stand at their least, and so do the results.
    bool hasComputed =
        std::any_of(ports.inputs.begin(), ports.inputs.end(), [&](const ModelPort &each) {
          for (size_t i = 0; i < each.maxDims.size(); ++i) {
            if (each.minDims[i] != each.maxDims[i] &&
                (each.dims.empty() || !record.symbols.contains(each.dims[i]))) {
              return true;
            }
          }
          return false;
        });
    std::vector<int64_t> dims = port.minDims;
    for (size_t i = 1; i < dims.size(); ++i) {
      if (length && port.dims[i] == plan.paddedDim) {
        dims[i] = *length;
      } else if (!hasComputed && port.minDims[i] != port.maxDims[i]) {
        dims[i] = record.symbols.at(port.dims[i]).typical;
      }
    }
    dims[0] = 1;
    return dims;
  }

  Result<Tensors> makeRow(size_t index, std::optional<int64_t> length) const {
    Tensors row;
    for (const ModelPort &port : ports.inputs) {
      TENON_ASSIGN(Tensor tensor, Tensor::create(port.name, port.dtype, rowDims(port, length)));
      if (isNumeric(port.dtype)) { // else zeros: nothing is known of it
        std::map<std::string, double>::const_iterator limit = record.limits.find(port.name);
        double amplitude = kAmplitudes[index % std::size(kAmplitudes)];
        ValueRange range = isFloating(port.dtype)         ? ValueRange{-amplitude, amplitude}
                           : limit != record.limits.end() ? ValueRange{0, limit->second}
                                                          : defaultRange(port.dtype);
        fillSeeded(tensor, index + 1, holds(port.dtype, range) ? range : defaultRange(port.dtype));
        // A mask hides some places, never all.
        if (!isFloating(port.dtype) && tensor.elements() > 0 && limit == record.limits.end()) {
          setElement(tensor, 0, 1);
        }
      }
      row.push_back(std::move(tensor));
    }
    return row;
  }

  /// The first `count` rows, over and over if there are fewer, the last one first, padded to
  /// `length`.
  Result<Tensors> concatenate(const std::vector<Tensors> &rows, size_t count,
                              std::optional<int64_t> length) const {
    Tensors batched;
    for (size_t p = 0; p < ports.inputs.size(); ++p) {
      const ModelPort &port = ports.inputs[p];
      std::vector<int64_t> dims = rowDims(port, length);
      TENON_ASSIGN(Tensor one, Tensor::create(port.name, port.dtype, dims));
      for (const PadRule &pad : policy.pads) {
        for (int64_t i = 0; length && pad.input == port.name && i < one.elements(); ++i) {
          setElement(one, i, pad.value);
        }
      }
      dims[0] = static_cast<int64_t>(count);
      TENON_ASSIGN(Tensor all, Tensor::create(port.name, port.dtype, dims));
      for (size_t r = 0; r < count; ++r) {
        const Tensor &row = rows[(count - 1 - r) % rows.size()][p];
        std::byte *to = all.data.data() + r * one.bytes().size();
        std::copy(one.bytes().begin(), one.bytes().end(), to);
        copyBox(to, one.dims, row.data.data(), row.dims, row.dims, bitWidth(port.dtype) / 8);
      }
      batched.push_back(std::move(all));
    }
    return batched;
  }

  Result<Tensors> run(const Tensors &tensors) const {
    std::vector<tenon_input> inputs;
    for (const Tensor &tensor : tensors) {
      inputs.push_back({tensor.data.data(), tensor.dims.data(), tensor.dims.size()});
    }
    TENON_TRY(takeStatus(tenon_session_prepare(session.get(), inputs.data(), inputs.size())));
    Tensors results;
    std::vector<tenon_output> outputs;
    for (size_t i = 0; i < ports.outputs.size(); ++i) {
      TENON_ASSIGN(std::vector<int64_t> dims, outputDims(i));
      TENON_ASSIGN(Tensor result,
                   Tensor::create(ports.outputs[i].name, ports.outputs[i].dtype, dims));
      outputs.push_back({result.data.data(), result.bytes().size()});
      results.push_back(std::move(result));
    }
    TENON_TRY(takeStatus(tenon_session_run(session.get(), inputs.data(), inputs.size(),
                                           outputs.data(), outputs.size())));
    for (size_t i = 0; i < results.size(); ++i) {
      TENON_ASSIGN(results[i].dims, outputDims(i)); // data may make it smaller
    }
    return results;
  }

  Result<std::vector<int64_t>> outputDims(size_t i) const {
    const int64_t *dims = nullptr;
    size_t rank = 0;
    TENON_TRY(takeStatus(tenon_session_output_shape(session.get(), i, &dims, &rank, nullptr)));
    return std::vector<int64_t>(dims, dims + rank);
  }

  /// Row `r` of an output of a batch, without what padding made longer: its dims are those of
  /// `like`.
  Result<Tensor> cut(const Tensor &batched, size_t r, const Tensor &like) const {
    std::vector<int64_t> rowDims = batched.dims;
    rowDims[0] = 1;
    TENON_ASSIGN(Tensor row, Tensor::create(like.name, like.dtype, like.dims));
    uint64_t rowBytes = batched.bytes().size() / static_cast<uint64_t>(batched.dims[0]);
    copyBox(row.data.data(), row.dims, batched.data.data() + r * rowBytes, rowDims, row.dims,
            bitWidth(like.dtype) / 8);
    return row;
  }

  /// Whether a batch of `count` rows gave, for this output, what it must for rows like `alone`.
  bool hasShape(const Tensor &batched, size_t count, const Tensor &alone, size_t port,
                bool isPadded) const {
    bool fits = alone.dims.size() == batched.dims.size() && !alone.dims.empty() &&
                alone.dims[0] == 1 && batched.dims[0] == static_cast<int64_t>(count);
    for (size_t i = 1; fits && i < alone.dims.size(); ++i) {
      bool grows = isPadded && ports.outputs[port].dims[i] == plan.paddedDim;
      fits = grows ? batched.dims[i] >= alone.dims[i] : batched.dims[i] == alone.dims[i];
    }
    return fits;
  }

  /// Lengths of the rows: the longest first, then shorter ones; or none.
  std::vector<std::optional<int64_t>> lengthsOf(size_t count) const {
    std::vector<std::optional<int64_t>> lengths(count);
    if (!isPadded()) {
      return lengths;
    }
    const RecordedSymbol &symbol = record.symbols.at(plan.paddedDim);
    int64_t longest =
        std::min(symbol.max, std::max(symbol.typical, std::max(kMinLength, symbol.min)));
    for (size_t i = 0; i < count; ++i) {
      lengths[i] = std::max(
          symbol.min, longest - static_cast<int64_t>(i) *
                                    std::max<int64_t>(1, longest / static_cast<int64_t>(count)));
    }
    return lengths;
  }

  static uint64_t bytesOf(const Tensors &tensors) {
    uint64_t sum = 0;
    for (const Tensor &tensor : tensors) {
      sum += tensor.bytes().size();
    }
    return sum;
  }

  uint64_t sessionBytes() const {
    tenon_memory_use use = {};
    use.struct_size = sizeof(use);
    bool isKnown = takeStatus(tenon_session_memory(session.get(), &use)).isOk();
    return isKnown ? use.arena + use.scratch + use.workspace + use.ports : 0;
  }

  bool isTime(double seconds) const {
    return Clock::now() + std::chrono::duration<double>(seconds) < plan.deadline;
  }

  /// The axis of an output whose places are compared by a bound of their own: what an image has of
  /// channels, and a table of columns.
  static size_t channelAxis(const Tensor &tensor) {
    return tensor.dims.size() > 2 ? 1 : tensor.dims.size() - 1;
  }

  /// The place in `magnitudes` of an output of a row.
  size_t scaleOf(size_t row, size_t output) const {
    return row % std::size(kAmplitudes) * ports.outputs.size() + output;
  }

  void findMagnitudes(const std::vector<Tensors> &alone) {
    magnitudes.assign(std::size(kAmplitudes) * ports.outputs.size(), {});
    for (size_t r = 0; r < alone.size(); ++r) {
      const Tensors &row = alone[r];
      for (size_t o = 0; o < row.size(); ++o) {
        std::vector<double> &channels = magnitudes[scaleOf(r, o)];
        for (int64_t i = 0; isFloating(row[o].dtype) && i < row[o].elements(); ++i) {
          size_t channel = channelOf(row[o], i);
          channels.resize(std::max(channels.size(), channel + 1));
          double value = std::abs(elementAsDouble(row[o], i));
          channels[channel] = std::max(channels[channel], std::isfinite(value) ? value : 0);
        }
      }
    }
  }

  static size_t channelOf(const Tensor &tensor, int64_t element) {
    int64_t inner = 1;
    size_t axis = channelAxis(tensor);
    for (size_t i = axis + 1; i < tensor.dims.size(); ++i) {
      inner *= tensor.dims[i];
    }
    return static_cast<size_t>(element / inner % tensor.dims[axis]);
  }

  /// Row `r` of a batch of `size`, which is `rows[index]` alone.
  Status compareRow(const std::vector<Tensors> &rows, size_t index, const Tensors &batched,
                    size_t r, size_t size) {
    const Tensors &alone = rows[index];
    for (size_t o = 0; o < alone.size(); ++o) {
      const std::string &name = ports.outputs[o].name;
      if (!hasShape(batched[o], size, alone[o], o, isPadded())) {
        return refusedBatch(fmt::format(
            "output '{}' has the shape [{}] for a batch of {} rows but [{}] for one of them", name,
            fmt::join(batched[o].dims, ","), size, fmt::join(alone[o].dims, ",")));
      }
      TENON_ASSIGN(Tensor row, cut(batched[o], r, alone[o]));
      if (std::memcmp(row.bytes().data(), alone[o].bytes().data(), row.bytes().size()) != 0) {
        TENON_TRY(compareElements(alone[o], row, magnitudes[scaleOf(index, o)], size));
      }
    }
    return Status::ok();
  }

  Status compareElements(const Tensor &alone, const Tensor &row,
                         const std::vector<double> &channels, size_t size) {
    double tolerance = !isFloating(row.dtype) ? 0
                       : policy.tolerance > 0 ? policy.tolerance
                                              : usualTolerance(row.dtype, record);
    double most = channels.empty() ? 0 : *std::max_element(channels.begin(), channels.end());
    for (int64_t i = 0; i < row.elements(); ++i) {
      double left = elementAsDouble(alone, i), right = elementAsDouble(row, i);
      if (left == right || (std::isnan(left) && std::isnan(right))) {
        continue;
      }
      size_t channel = channelOf(row, i);
      double magnitude =
          channel < channels.size() ? std::max(channels[channel], most * kLeastChannel) : 0;
      double relative = std::abs(left - right) / std::max(magnitude, 1e-300);
      if (!(relative <= tolerance)) {
        return refusedBatch(
            fmt::format("output '{}' of a row changes by {:.3g} when {} rows are {} (the largest "
                        "value is {:.3g}, and {:.3g} of that is allowed)",
                        alone.name, std::abs(left - right), size,
                        isPadded() ? "padded and batched" : "batched", magnitude, tolerance));
      }
      largest = std::max(largest, relative);
    }
    return Status::ok();
  }

  const ModelPorts &ports;
  const EngineRecord &record;
  const BatchPolicy &policy;
  const LookPlan &plan;
  capi::SessionHandle session;
  /// By amplitude and output, of each channel: the largest number that rows alone give.
  std::vector<std::vector<double>> magnitudes;
  double largest = 0;
};

} // namespace

Status refusedBatch(std::string_view why) { return Status::error(ErrorId::NotBatchable, why); }

Result<double> secondLook(const tenon_engine *engine, unsigned threads, const ModelPorts &ports,
                          const EngineRecord &record, const BatchPolicy &policy,
                          const LookPlan &plan) {
  Look look(ports, record, policy, plan);
  // Of what the record proves nothing has to be seen; a state would be in the record too.
  if (policy.acceptsMeetings || look.isAffordable()) {
    TENON_TRY(look.open(engine, threads));
    TENON_TRY(look.look());
  }
  return look.difference();
}

} // namespace tenon::server

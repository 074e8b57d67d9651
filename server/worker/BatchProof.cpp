// What the record does not prove is run only if somebody accepts it. Rows differ in their seed;
// each is run alone once, then batches of 2, 3 and up to 8 of them. With padding, rows differ in
// length too. One file: the proof is one class, whose steps share its runs.

#include "server/worker/BatchProof.h"

#include "runtime/tensors/Seeded.h"
#include "runtime/tensors/Tensor.h"
#include "server/ipc/TensorBox.h"
#include "server/ipc/TensorDifference.h"
#include "server/worker/LoadedModel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

namespace tenon::server {
namespace {

constexpr uint64_t kMaxProven = 8;
/// Of a batch, where nobody says how large it may be.
constexpr uint64_t kUsualRows = 64;
/// Of rows that differ in length, where the typical length is too short to differ.
constexpr int64_t kMinLength = 16;

using Tensors = std::vector<Tensor>;

Status refused(std::string_view why) { return Status::error(ErrorId::NotBatchable, why); }

class Proof {
public:
  Proof(const ModelPorts &ports, const EngineRecord &record, const BatchPolicy &policy)
      : ports(ports), record(record), policy(policy) {}

  BatchInfo prove(const tenon_engine *engine, unsigned threads) {
    BatchInfo info;
    if (policy.kind == BatchPolicy::Kind::None) {
      return info;
    }
    Status status = findBatch();
    if (!status.isOk() && policy.kind == BatchPolicy::Kind::IfRecorded) {
      return info;
    }
    if (status.isOk() && !policy.acceptsMeetings) {
      status = findMeetings();
    }
    if (status.isOk()) {
      status = open(engine, threads);
    }
    if (status.isOk()) {
      status = proveBatches(std::nullopt);
    }
    info.batching = status.isOk() ? BatchInfo::State::Proven : BatchInfo::State::Refused;
    info.reason = reasonOf(status);
    info.maxRows = status.isOk() ? maxRows : 1;
    if (!policy.pads.empty()) {
      status = status.isOk() ? findPadding() : refused("its requests are not batched");
      if (status.isOk()) {
        status = proveBatches(paddedDim);
      }
      info.padding = status.isOk() ? BatchInfo::State::Proven : BatchInfo::State::Refused;
      info.padReason = reasonOf(status);
      info.paddedDim = status.isOk() ? paddedDim : "";
    }
    info.difference = largest;
    return info;
  }

private:
  struct Destroy {
    void operator()(tenon_session *session) const { tenon_session_destroy(session); }
  };

  static std::string reasonOf(const Status &status) {
    return status.isOk() || status.id() == ErrorId::NotBatchable
               ? std::string(status.message())
               : "the proof could not be made: " + status.toString();
  }

  bool isSymbol(const std::string &dim) const { return record.symbols.contains(dim); }

  /// Sets maxRows and, where there is a record, batchDim.
  Status findBatch() {
    uint64_t most = policy.maxRows ? policy.maxRows : kUsualRows;
    if (ports.inputs.empty() || ports.outputs.empty()) {
      return refused("it has no inputs or no outputs");
    }
    for (const std::vector<ModelPort> *list : {&ports.inputs, &ports.outputs}) {
      for (const ModelPort &port : *list) {
        bool isInput = list == &ports.inputs;
        std::string what = fmt::format("{} '{}'", isInput ? "input" : "output", port.name);
        if (port.maxDims.empty() || (isInput && port.minDims[0] > 1)) {
          return refused(what + " has no dim 0 that may be 1");
        }
        if (port.dims.empty() && policy.kind == BatchPolicy::Kind::IfRecorded) {
          return refused("the engine does not record which of its dims are equal");
        }
        if (!port.dims.empty()) {
          batchDim = batchDim.empty() ? port.dims[0] : batchDim;
          if (port.dims[0] != batchDim || !isSymbol(batchDim)) {
            return refused(fmt::format("dim 0 of {} is {}, which is not the batch{}", what,
                                       port.dims[0],
                                       isSymbol(batchDim) ? fmt::format(" {}", batchDim) : ""));
          }
        }
        most = std::min(most, static_cast<uint64_t>(port.maxDims[0]));
      }
    }
    if (most < 2) {
      return refused("it takes one row at a time");
    }
    maxRows = most;
    return Status::ok();
  }

  /// Whether the record proves that no row of an output sees another.
  Status findMeetings() const {
    if (!record.meetings) {
      return refused(
          "the engine does not record whether its rows are independent; compile the model "
          "again");
    }
    for (const ModelPort &port : ports.outputs) {
      std::map<std::string, std::string>::const_iterator found = record.meetings->find(port.name);
      if (found == record.meetings->end() || !found->second.empty()) {
        return refused(fmt::format("rows of output '{}' are not independent: {}", port.name,
                                   found == record.meetings->end() ? "the record does not name it"
                                                                   : found->second));
      }
    }
    return Status::ok();
  }

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
    return use.state == 0 ? Status::ok() : refused("it keeps a state from run to run");
  }

  /// The one symbol that the inputs to pad have besides the batch; nothing else may vary with it.
  Status findPadding() {
    for (const PadRule &pad : policy.pads) {
      const ModelPort *port = nullptr;
      for (const ModelPort &each : ports.inputs) {
        port = each.name == pad.input ? &each : port;
      }
      if (!port || port->dims.empty() || !isNumeric(port->dtype)) {
        return refused(fmt::format(
            "'{}', which is to be padded, is not an input whose dims are recorded", pad.input));
      }
      for (size_t i = 1; i < port->dims.size(); ++i) {
        bool isFree = port->minDims[i] != port->maxDims[i];
        if (isFree && !paddedDim.empty() && port->dims[i] != paddedDim) {
          return refused(fmt::format("input '{}' has the dim {} besides {}, and one can be padded",
                                     pad.input, port->dims[i], paddedDim));
        }
        if (isFree) {
          paddedDim = port->dims[i];
        }
      }
    }
    if (!isSymbol(paddedDim)) {
      return refused("no dim of the inputs to pad varies by itself");
    }
    for (const std::vector<ModelPort> *list : {&ports.inputs, &ports.outputs}) {
      for (const ModelPort &port : *list) {
        for (const std::string &dim : port.dims) {
          if (dim != paddedDim && !isSymbol(dim) && dim.find(paddedDim) != std::string::npos) {
            return refused(
                fmt::format("'{}' has the dim {}, which padding would change", port.name, dim));
          }
        }
        bool isPadded = std::any_of(policy.pads.begin(), policy.pads.end(),
                                    [&](const PadRule &pad) { return pad.input == port.name; });
        if (list == &ports.inputs && !isPadded &&
            std::find(port.dims.begin(), port.dims.end(), paddedDim) != port.dims.end()) {
          return refused(
              fmt::format("input '{}' has the dim {} too, and nothing says what to pad it with",
                          port.name, paddedDim));
        }
      }
    }
    return Status::ok();
  }

  /// Dims of one row; `length` is that of the padded dim.
  std::vector<int64_t> rowDims(const ModelPort &port, std::optional<int64_t> length) const {
    // Where a dim is computed from others, all stand at their least, and so do the results.
    bool hasComputed =
        std::any_of(ports.inputs.begin(), ports.inputs.end(), [&](const ModelPort &each) {
          for (size_t i = 0; i < each.maxDims.size(); ++i) {
            if (each.minDims[i] != each.maxDims[i] &&
                (each.dims.empty() || !isSymbol(each.dims[i]))) {
              return true;
            }
          }
          return false;
        });
    std::vector<int64_t> dims = port.minDims;
    for (size_t i = 1; i < dims.size(); ++i) {
      if (length && port.dims[i] == paddedDim) {
        dims[i] = *length;
      } else if (!hasComputed && port.minDims[i] != port.maxDims[i]) {
        dims[i] = record.symbols.at(port.dims[i]).typical;
      }
    }
    dims[0] = 1;
    return dims;
  }

  /// Whether the input is padded and has one number a place, as masks and ids do.
  bool isPaddedLine(const ModelPort &port) const {
    return port.maxDims.size() == 2 &&
           std::any_of(policy.pads.begin(), policy.pads.end(),
                       [&](const PadRule &pad) { return pad.input == port.name; });
  }

  Result<Tensors> makeRow(uint64_t seed, std::optional<int64_t> length) const {
    Tensors row;
    for (const ModelPort &port : ports.inputs) {
      TENON_ASSIGN(Tensor tensor, Tensor::create(port.name, port.dtype, rowDims(port, length)));
      if (!isNumeric(port.dtype)) {
        row.push_back(std::move(tensor)); // zeros: nothing is known of it
        continue;
      }
      bool isLine = length && isPaddedLine(port);
      fillSeeded(tensor, seed, defaultRange(isLine ? DType::Bool : port.dtype));
      for (int64_t i = 0; isLine && i < tensor.elements(); ++i) {
        // 0 and 1, of which the first is 1: a mask hides some places, never all.
        setElement(tensor, i, i == 0 || std::abs(elementAsDouble(tensor, i)) >= 0.5 ? 1 : 0);
      }
      row.push_back(std::move(tensor));
    }
    return row;
  }

  /// The first `count` rows, the last one first, padded to `length`.
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
        const Tensor &row = rows[count - 1 - r][p];
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
      bool grows = isPadded && ports.outputs[port].dims[i] == paddedDim;
      fits = grows ? batched.dims[i] >= alone.dims[i] : batched.dims[i] == alone.dims[i];
    }
    return fits;
  }

  /// Lengths of the rows: the longest first, then shorter ones; or none.
  std::vector<std::optional<int64_t>> lengthsOf(const std::optional<std::string> &dim,
                                                size_t count) const {
    std::vector<std::optional<int64_t>> lengths(count);
    if (!dim) {
      return lengths;
    }
    const RecordedSymbol &symbol = record.symbols.at(*dim);
    int64_t longest =
        std::min(symbol.max, std::max(symbol.typical, std::max(kMinLength, symbol.min)));
    for (size_t i = 0; i < count; ++i) {
      lengths[i] = std::max(
          symbol.min, longest - static_cast<int64_t>(i) *
                                    std::max<int64_t>(1, longest / static_cast<int64_t>(count)));
    }
    return lengths;
  }

  /// Padded along `dim` where there is one.
  Status proveBatches(const std::optional<std::string> &dim) {
    size_t count = std::min(kMaxProven, maxRows);
    std::vector<std::optional<int64_t>> lengths = lengthsOf(dim, count);
    std::vector<Tensors> rows, alone;
    for (size_t r = 0; r < count; ++r) {
      TENON_ASSIGN(Tensors row, makeRow(r + 1, lengths[r]));
      TENON_ASSIGN(Tensors result, run(row));
      rows.push_back(std::move(row));
      alone.push_back(std::move(result));
    }
    std::vector<double> magnitudes(ports.outputs.size());
    for (const Tensors &row : alone) {
      for (size_t o = 0; o < row.size(); ++o) {
        magnitudes[o] = std::max(magnitudes[o], magnitudeOf(row[o]));
      }
    }
    for (size_t size : {size_t(2), size_t(3), count}) {
      if (size > count) {
        continue;
      }
      TENON_ASSIGN(Tensors batched, concatenate(rows, size, lengths[0]));
      TENON_ASSIGN(Tensors results, run(batched));
      for (size_t r = 0; r < size; ++r) {
        TENON_TRY(compareRow(alone[size - 1 - r], results, r, size, magnitudes, dim.has_value()));
      }
    }
    return Status::ok();
  }

  static double magnitudeOf(const Tensor &tensor) {
    double largest = 0;
    for (int64_t i = 0; isNumeric(tensor.dtype) && i < tensor.elements(); ++i) {
      double value = std::abs(elementAsDouble(tensor, i));
      largest = std::isfinite(value) ? std::max(largest, value) : largest;
    }
    return largest;
  }

  Status compareRow(const Tensors &alone, const Tensors &batched, size_t r, size_t size,
                    const std::vector<double> &magnitudes, bool isPadded) {
    for (size_t o = 0; o < alone.size(); ++o) {
      const std::string &name = ports.outputs[o].name;
      if (!hasShape(batched[o], size, alone[o], o, isPadded)) {
        return refused(
            fmt::format("output '{}' is [{}] for a batch of {} rows and [{}] for one of them", name,
                        fmt::join(batched[o].dims, ","), size, fmt::join(alone[o].dims, ",")));
      }
      TENON_ASSIGN(Tensor row, cut(batched[o], r, alone[o]));
      TensorDifference difference = differenceOf(alone[o], row);
      if (!difference.isAny) {
        continue;
      }
      double tolerance =
          isFloating(row.dtype)
              ? (policy.tolerance > 0 ? policy.tolerance : usualTolerance(row.dtype, record))
              : 0;
      double relative =
          difference.largest == 0 ? 0 : difference.largest / std::max(magnitudes[o], 1e-300);
      if (!(relative <= tolerance)) {
        return refused(fmt::format("output '{}' of a row changes by {:.3g} when {} rows are {} "
                                   "(its largest value is {:.3g}, allowed is {:.3g} of that)",
                                   name, difference.largest, size,
                                   isPadded ? "padded and batched" : "batched", magnitudes[o],
                                   tolerance));
      }
      largest = std::max(largest, relative);
    }
    return Status::ok();
  }

  const ModelPorts &ports;
  const EngineRecord &record;
  const BatchPolicy &policy;
  std::unique_ptr<tenon_session, Destroy> session;
  std::string batchDim, paddedDim;
  uint64_t maxRows = 1;
  double largest = 0; ///< difference that was seen and allowed
};

} // namespace

BatchInfo proveBatch(const tenon_engine *engine, const ModelPorts &ports,
                     const EngineRecord &record, const BatchPolicy &policy, unsigned threads) {
  return Proof(ports, record, policy).prove(engine, threads);
}

} // namespace tenon::server

// Implements the runs. Whether rows of outputs are those of samples is read off the plan: a data
// set's first dim and an output's are then one symbol, or one fixed number.

#include "tools/tenon/accuracy/BatchRunner.h"

#include "support/Shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tenon::tool {
namespace {

/// Whether every input and every output has the rows of the batch as its first dim.
bool hasRowsOfSamples(const engine::Plan &plan) {
  auto rowsOf = [&](const engine::Port &port) {
    return port.dims.empty() ? std::nullopt : std::optional(plan.exprs.format(port.dims[0]));
  };
  std::optional<std::string> rows = plan.inputs.empty() ? std::nullopt : rowsOf(plan.inputs[0]);
  auto has = [&](const engine::Port &port) { return rows && rowsOf(port) == rows; };
  return std::ranges::all_of(plan.inputs, has) && std::ranges::all_of(plan.outputs, has);
}

/// Row `row` of `rows` of a tensor; all of it, less a leading 1, where there is but one.
Result<Tensor> rowOf(const Tensor &tensor, size_t row, size_t rows) {
  bool hasRows = !tensor.dims.empty() && tensor.dims[0] == static_cast<int64_t>(rows);
  std::vector<int64_t> dims(tensor.dims.begin() + (hasRows ? 1 : 0), tensor.dims.end());
  TENON_ASSIGN(Tensor result, Tensor::create(tensor.name, tensor.dtype, std::move(dims)));
  size_t bytes = result.bytes().size();
  if (bytes > 0) {
    std::memcpy(result.data.data(), tensor.data.data() + (hasRows ? row * bytes : 0), bytes);
  }
  return result;
}

} // namespace

Result<BatchRunner> BatchRunner::create(std::shared_ptr<const runtime::Engine> engine,
                                        const Dataset &data, size_t mostRows,
                                        const runtime::SessionOptions &options) {
  BatchRunner runner;
  runner.most = hasRowsOfSamples(engine->plan()) ? mostRows : 1;
  runner.samples = &data;
  TENON_ASSIGN(runner.session, runtime::Session::create(std::move(engine), options));
  return runner;
}

Result<std::vector<Tensor>> BatchRunner::run(const Batch &batch) {
  std::vector<std::span<const int64_t>> dims;
  std::vector<runtime::InputBinding> inputs;
  for (const Tensor &tensor : batch.inputs) {
    dims.push_back(tensor.dims);
    inputs.push_back({tensor.data.data(), tensor.dims});
  }
  TENON_TRY(session->prepare(dims));
  TENON_TRY(session->resetState()); // samples are apart
  std::vector<Tensor> outputs;
  std::vector<runtime::OutputBinding> bindings;
  for (const engine::Port &port : engine().plan().outputs) {
    std::span<const int64_t> shape = session->outputDims(outputs.size());
    TENON_ASSIGN(Tensor output,
                 Tensor::create(port.name, port.dtype, {shape.begin(), shape.end()}));
    bindings.push_back({output.data.data(), output.data.size()});
    outputs.push_back(std::move(output));
  }
  TENON_TRY(session->run(inputs, bindings));
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::span<const int64_t> shape = session->outputDims(i);
    outputs[i].dims.assign(shape.begin(), shape.end());
  }
  return outputs;
}

Result<std::vector<std::vector<Tensor>>> BatchRunner::outputsOf(size_t first, size_t count) {
  std::vector<std::vector<Tensor>> result;
  while (result.size() < count) {
    TENON_ASSIGN(Batch batch,
                 samples->read(first + result.size(), std::min(most, count - result.size())));
    Result<std::vector<Tensor>> ran = run(batch);
    if (!ran) {
      return ran.takeStatus().prefix(fmt::format("{}: sample {}", samples->path(), batch.first));
    }
    bool isOne = batch.rows == 1;
    for (size_t row = 0; row < batch.samples; ++row) {
      std::vector<Tensor> outputs;
      for (const Tensor &output : *ran) {
        bool hasRows = !output.dims.empty() && output.dims[0] == static_cast<int64_t>(batch.rows);
        if (!isOne && !hasRows) {
          return Status::error(
              ErrorId::BadDataset,
              fmt::format("{}: output '{}' is {} for a batch of {}, so it does not have a row for "
                          "each sample",
                          samples->path(), output.name, formatDims(output.dims), batch.rows),
              "give samples that are whole inputs: one more dim in front of the array");
        }
        TENON_ASSIGN(Tensor own, rowOf(output, row, batch.rows));
        outputs.push_back(std::move(own));
      }
      result.push_back(std::move(outputs));
    }
  }
  return result;
}

Result<std::vector<Tensor>> BatchRunner::inputsOf(size_t sample) const {
  TENON_ASSIGN(Batch batch, samples->read(sample, 1));
  std::vector<Tensor> inputs;
  for (const Tensor &input : batch.inputs) {
    TENON_ASSIGN(Tensor own, rowOf(input, 0, batch.rows));
    inputs.push_back(std::move(own));
  }
  return inputs;
}

} // namespace tenon::tool

// Requests of one call run as batches of those that fit together, or alone; an error meets only the
// request that it is of. Outputs are kept in the session and copied, since data may decide how
// large they are and only Triton knows where they go.

#include "bindings/triton/Instance.h"

#include "bindings/triton/Requests.h"
#include "support/text/Text.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <new>

namespace tenon::triton {
namespace {

uint64_t now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

tenon_input inputOf(const Tensor &tensor) {
  static constexpr std::byte kNothing = {}; // an input without elements has no memory
  return {tensor.data ? tensor.data : &kNothing, tensor.dims.data(), tensor.dims.size()};
}

/// What requests of one batch have equal: all dims but the first of each input.
std::vector<std::vector<int64_t>> batchKey(const Call &call) {
  std::vector<std::vector<int64_t>> key;
  for (const Tensor &tensor : call.inputs) {
    key.emplace_back(tensor.dims.begin() + 1, tensor.dims.end());
  }
  return key;
}

/// The inputs of all calls, one behind the other.
std::vector<Tensor> concatenate(std::span<Call *const> calls) {
  std::vector<Tensor> batch(calls[0]->inputs.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].dims = calls[0]->inputs[i].dims;
    batch[i].dims[0] = 0;
    for (const Call *call : calls) {
      const Tensor &part = call->inputs[i];
      batch[i].dims[0] += part.dims[0];
      batch[i].ownBytes.insert(batch[i].ownBytes.end(), part.data, part.data + part.bytes);
    }
    batch[i].data = batch[i].ownBytes.data();
  }
  return batch;
}

void logError(const Error &error) {
  if (error) {
    take(TRITONSERVER_LogMessage(TRITONSERVER_LOG_ERROR, "tenon", 0,
                                 TRITONSERVER_ErrorMessage(error.get())));
  }
}

} // namespace

Error Instance::create(TRITONBACKEND_ModelInstance *handle, Model &model,
                       std::unique_ptr<Instance> &instance) {
  std::unique_ptr<Instance> made(new Instance(handle, model));
  TRITON_TRY(made->open());
  instance = std::move(made);
  return nullptr;
}

Error Instance::open() {
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU;
  int32_t device = 0;
  const char *name = nullptr;
  TRITON_TRY(TRITONBACKEND_ModelInstanceKind(handle, &kind));
  TRITON_TRY(TRITONBACKEND_ModelInstanceDeviceId(handle, &device));
  TRITON_TRY(TRITONBACKEND_ModelInstanceName(handle, &name));
  TRITON_TRY(model.engineOn(kind == TRITONSERVER_INSTANCEGROUPKIND_GPU ? device : -1, engine));
  tenon_session_options options = {};
  options.struct_size = sizeof(options);
  options.threads = model.config().threads;
  tenon_session *made = nullptr;
  TRITON_TRY(tenon_session_create(engine.get(), &options, &made));
  session.reset(made);
  tenon_memory_use use = {};
  use.struct_size = sizeof(use);
  TRITON_TRY(tenon_session_memory(session.get(), &use));
  if (use.state > 0 && model.config().maxBatchSize > 0) {
    return fail(ErrorId::BadModelConfig,
                "the model keeps state from run to run, so requests cannot be batched",
                "say max_batch_size: 0");
  }
  std::string text = strCat("tenon: ", name, " has code for ", tenon_engine_variant(engine.get()));
  return take(TRITONSERVER_LogMessage(TRITONSERVER_LOG_INFO, "tenon", 0, text.c_str()));
}

void Instance::execute(std::span<TRITONBACKEND_Request *const> requests) {
  std::vector<Call> calls(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    calls[i].request = requests[i];
  }
  Times times = {now()};
  try {
    executeAll(calls, times);
  } catch (const std::bad_alloc &) {
    for (Call &call : calls) {
      if (call.request) {
        finish(call, fail(ErrorId::OutOfMemory, "out of memory for a request"), times);
      }
    }
  }
}

void Instance::executeAll(std::span<Call> calls, Times &times) {
  std::map<std::vector<std::vector<int64_t>>, std::vector<Call *>> batches;
  std::vector<Call *> alone;
  bool isBatched =
      model.config().maxBatchSize > 0 && calls.size() > 1 && !model.ports().inputs.empty();
  for (Call &call : calls) {
    if (Error error = readInputs(call)) {
      finish(call, error, times);
    } else if (isBatched) {
      batches[batchKey(call)].push_back(&call);
    } else {
      alone.push_back(&call);
    }
  }
  for (const auto &[key, batch] : batches) {
    if (batch.size() == 1 || runBatch(batch, times)) {
      alone.insert(alone.end(), batch.begin(), batch.end());
    }
  }
  for (Call *call : alone) {
    runAlone(*call);
  }
}

Error Instance::readInputs(Call &call) const {
  const std::vector<Port> &ports = model.ports().inputs;
  call.inputs.resize(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    Tensor &tensor = call.inputs[i];
    TRITON_TRY(readInput(call.request, ports[i], tensor));
    if (model.config().maxBatchSize > 0) {
      if (tensor.dims.empty() || (i > 0 && tensor.dims[0] != call.rows)) {
        return fail(
            ErrorId::BadRequestTensor,
            strCat("input '", ports[i].name, "' has another number of rows than the first input"));
      }
      call.rows = tensor.dims[0];
    }
  }
  return nullptr;
}

Error Instance::run(std::span<const tenon_input> inputs, Times &times) {
  std::vector<tenon_output> kept(model.ports().outputs.size(), tenon_output{});
  times.computeStart = now();
  Error error = take(
      tenon_session_run(session.get(), inputs.data(), inputs.size(), kept.data(), kept.size()));
  times.computeEnd = now();
  return error;
}

Error Instance::runBatch(std::span<Call *const> calls, Times &times) {
  std::vector<Tensor> batch = concatenate(calls);
  std::vector<tenon_input> inputs;
  for (const Tensor &tensor : batch) {
    inputs.push_back(inputOf(tensor));
  }
  TRITON_TRY(run(inputs, times));
  int64_t rows = batch[0].dims[0];
  for (size_t i = 0; i < model.ports().outputs.size(); ++i) {
    const int64_t *dims = nullptr;
    size_t rank = 0;
    TRITON_TRY(tenon_session_output_shape(session.get(), i, &dims, &rank, nullptr));
    if (rank == 0 || dims[0] != rows) {
      return fail(ErrorId::NotBatchable,
                  strCat("output '", model.ports().outputs[i].name,
                         "' of a batch has another number of rows than its inputs"));
    }
  }
  int64_t row = 0;
  std::vector<Error> errors;
  for (Call *call : calls) {
    errors.push_back(fillResponse(*call, row, rows));
    row += call->rows;
  }
  reportExecution(rows, times);
  for (size_t i = 0; i < calls.size(); ++i) {
    finish(*calls[i], errors[i], times);
  }
  return nullptr;
}

void Instance::runAlone(Call &call) {
  Times times = {now()};
  std::vector<tenon_input> inputs;
  for (const Tensor &tensor : call.inputs) {
    inputs.push_back(inputOf(tensor));
  }
  Error error = run(inputs, times);
  if (error) {
    finish(call, error, times);
    return;
  }
  error = fillResponse(call, 0, call.rows);
  reportExecution(call.rows, times);
  finish(call, error, times);
}

Error Instance::fillResponse(Call &call, int64_t firstRow, int64_t rows) const {
  std::vector<std::string_view> wanted;
  TRITON_TRY(wantedOutputs(call.request, wanted));
  TRITON_TRY(TRITONBACKEND_ResponseNew(&call.response, call.request));
  const std::vector<Port> &ports = model.ports().outputs;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (std::find(wanted.begin(), wanted.end(), ports[i].name) == wanted.end()) {
      continue;
    }
    const int64_t *start = nullptr;
    size_t rank = 0, bytes = 0;
    TRITON_TRY(tenon_session_output_shape(session.get(), i, &start, &rank, &bytes));
    std::vector<int64_t> dims(start, start + rank);
    const std::byte *data =
        static_cast<const std::byte *>(tenon_session_output_data(session.get(), i));
    if (call.rows < rows) {
      uint64_t rowBytes = bytes / static_cast<uint64_t>(rows);
      data += static_cast<uint64_t>(firstRow) * rowBytes;
      bytes = static_cast<uint64_t>(call.rows) * rowBytes;
      dims[0] = call.rows;
    }
    TRITON_TRY(writeOutput(call.response, ports[i], dims, data, bytes));
  }
  return nullptr;
}

void Instance::finish(Call &call, const Error &error, const Times &times) const {
  // What Triton refuses here has no caller that could be told.
  logError(take(TRITONBACKEND_ModelInstanceReportStatistics(
      handle, call.request, !error, times.start, times.computeStart, times.computeEnd, times.end)));
  if (!call.response) {
    logError(take(TRITONBACKEND_ResponseNew(&call.response, call.request)));
  }
  if (call.response) {
    logError(take(TRITONBACKEND_ResponseSend(call.response, TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                             error.get())));
  }
  logError(take(TRITONBACKEND_RequestRelease(call.request, TRITONSERVER_REQUEST_RELEASE_ALL)));
  call.request = nullptr;
}

void Instance::reportExecution(int64_t rows, Times &times) const {
  times.end = now();
  logError(take(TRITONBACKEND_ModelInstanceReportBatchStatistics(
      handle, static_cast<uint64_t>(rows), times.start, times.computeStart, times.computeEnd,
      times.end)));
}

} // namespace tenon::triton

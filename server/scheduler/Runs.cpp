// Runs: which requests make a batch, its way through a shared buffer to an instance of the model,
// and the outputs' way back.

#include "runtime/tensors/Tensor.h"
#include "server/ipc/TensorBox.h"
#include "server/scheduler/ModelManager.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tenon::server {
namespace {

/// What is left for outputs of which nothing is known yet.
constexpr uint64_t kFirstRoom = 16 << 10;

Status damaged(std::string_view what) {
  return Status::error(ErrorId::InternalError,
                       fmt::format("the worker's answer is damaged: {}", what));
}

/// The worker is not trusted to keep to the ports that it told.
bool isOutputOf(const ModelPort &port, const TensorPlace &place) {
  unsigned __int128 bytes = bitWidth(port.dtype) / 8;
  bool fits = place.dims.size() == port.maxDims.size();
  for (size_t i = 0; fits && i < place.dims.size(); ++i) {
    fits = place.dims[i] >= 0 && place.dims[i] <= port.maxDims[i];
    bytes *= static_cast<uint64_t>(std::max<int64_t>(place.dims[i], 0));
    fits = fits && bytes <= UINT64_MAX;
  }
  return fits && bytes == place.bytes;
}

uint64_t bytesOf(const std::vector<int64_t> &dims, DType dtype) {
  uint64_t bytes = bitWidth(dtype) / 8;
  for (int64_t dim : dims) {
    bytes *= static_cast<uint64_t>(dim);
  }
  return bytes;
}

/// The length that the requests are padded to; 0 where they have one length.
int64_t paddedLength(const std::vector<std::shared_ptr<Request>> &requests) {
  bool isEqual =
      std::all_of(requests.begin(), requests.end(), [&](const std::shared_ptr<Request> &request) {
        return request->length == requests[0]->length;
      });
  return isEqual ? 0 : requests[0]->bucket;
}

/// The inputs of an instance's batch, without their offsets.
std::vector<TensorPlace> placeInputs(const Instance &instance) {
  const Request &first = *instance.requests[0];
  const std::vector<ModelPort> &ports = first.version->ports.inputs;
  std::vector<TensorPlace> places;
  for (size_t p = 0; p < ports.size(); ++p) {
    TensorPlace place = {0, 0, first.payload.inputs[first.order[p]].dims};
    if (instance.requests.size() > 1) {
      place.dims[0] = static_cast<int64_t>(instance.rows());
    }
    for (size_t i = 1; instance.padded > 0 && i < place.dims.size(); ++i) {
      place.dims[i] =
          ports[p].dims[i] == first.version->batch->paddedDim ? instance.padded : place.dims[i];
    }
    place.bytes = bytesOf(place.dims, ports[p].dtype);
    places.push_back(std::move(place));
  }
  return places;
}

/// Writes an input of a request to its rows of a batch, which have `dims`: those of the input, or
/// longer ones, which are padded.
Status store(const Request &request, const RequestInput &input, const std::vector<int64_t> &dims,
             MutableBytes to) {
  if (dims == input.dims) {
    if (input.list) {
      return storeNumbers(request.payload.lists[*input.list], input.dtype, to, input.name);
    }
    std::copy(input.binary.begin(), input.binary.end(), to.begin());
    return Status::ok();
  }
  std::vector<std::byte> own(input.list ? input.bytes : 0);
  if (input.list) {
    TENON_TRY(storeNumbers(request.payload.lists[*input.list], input.dtype, own, input.name));
  }
  double value = 0;
  for (const auto &[name, pad] : request.version->config.pads) {
    value = name == input.name ? pad : value;
  }
  TENON_ASSIGN(Tensor element, Tensor::create("", input.dtype, {1}));
  setElement(element, 0, value);
  for (size_t at = 0; at < to.size(); at += element.bytes().size()) {
    std::memcpy(to.data() + at, element.data.data(), element.bytes().size());
  }
  copyBox(to.data(), dims, input.list ? own.data() : input.binary.data(), input.dims, input.dims,
          element.bytes().size());
  return Status::ok();
}

/// The rows of a request in an output of its batch, from row `first`. What padding made longer is
/// cut off in place.
TensorPlace cutOutput(const Request &request, const ModelPort &port, TensorPlace place,
                      uint64_t first, int64_t padded, std::byte *buffer) {
  uint64_t rowBytes = place.bytes / static_cast<uint64_t>(place.dims[0]);
  place.offset += first * rowBytes;
  place.bytes = request.rows * rowBytes;
  place.dims[0] = static_cast<int64_t>(request.rows);
  std::vector<int64_t> whole = place.dims;
  for (size_t i = 1; padded > 0 && i < place.dims.size(); ++i) {
    place.dims[i] =
        port.dims[i] == request.version->batch->paddedDim ? request.length : place.dims[i];
  }
  if (place.dims != whole) {
    copyBox(buffer + place.offset, place.dims, buffer + place.offset, whole, place.dims,
            bitWidth(port.dtype) / 8);
    place.bytes = bytesOf(place.dims, port.dtype);
  }
  return place;
}

uint64_t rowsOf(const std::vector<std::shared_ptr<Request>> &requests) {
  uint64_t rows = 0;
  for (const std::shared_ptr<Request> &request : requests) {
    rows += request->rows;
  }
  return rows;
}

/// The largest preferred number of rows that is there; 0 where there is none.
uint64_t preferredRows(const BatchingConfig &batching, uint64_t rows) {
  uint64_t best = 0;
  for (uint64_t each : batching.preferred) {
    best = each <= rows ? each : best;
  }
  return best;
}

} // namespace

void ModelManager::dispatch(Version &version) {
  bool takesRuns =
      !version.isLeaving && version.worker && version.worker->isRunning() &&
      (version.state == VersionState::Ready || version.state == VersionState::Unloading);
  for (size_t i = 0; takesRuns && i < version.instances.size(); ++i) {
    Instance &instance = *version.instances[i];
    while (instance.requests.empty()) {
      std::vector<std::shared_ptr<Request>> batch = chooseBatch(version);
      if (batch.empty()) {
        return;
      }
      begin(version, instance, std::move(batch));
    }
  }
}

std::vector<std::shared_ptr<Request>> ModelManager::chooseBatch(Version &version) {
  std::vector<std::shared_ptr<Request>> batch =
      version.queue.gather(version.isBatched() ? version.batch->maxRows : 1);
  if (batch.empty() || !batch[0]->canBatch || !version.config.batching) {
    return batch;
  }
  const BatchingConfig &batching = *version.config.batching;
  uint64_t rows = rowsOf(batch);
  if (uint64_t preferred = preferredRows(batching, rows)) {
    while (rows > preferred && batch.size() > 1) {
      rows -= batch.back()->rows;
      batch.pop_back();
    }
    return batch;
  }
  Clock::time_point oldest = batch[0]->arrival;
  for (const std::shared_ptr<Request> &request : batch) {
    oldest = std::min(oldest, request->arrival);
  }
  Clock::time_point end = oldest + std::chrono::microseconds(batching.delayMicroseconds);
  if (rows < version.batch->maxRows && end > Clock::now()) {
    armBatchDeadline(version, end);
    return {};
  }
  return batch;
}

void ModelManager::armBatchDeadline(Version &version, Clock::time_point deadline) {
  if (version.batchDeadline && version.batchDeadline->expiry() == deadline) {
    return;
  }
  version.batchDeadline.emplace(executor, deadline);
  version.batchDeadline->async_wait(
      [this, weak = version.weak_from_this()](boost::system::error_code error) {
        std::shared_ptr<Version> held = weak.lock();
        if (!error && held) {
          held->batchDeadline.reset();
          dispatch(*held);
        }
      });
}

void ModelManager::begin(Version &version, Instance &instance,
                         std::vector<std::shared_ptr<Request>> batch) {
  for (const std::shared_ptr<Request> &request : batch) {
    version.queue.erase(request);
    dropDeadline(*request);
    request->times.queue = nanosecondsSince(request->arrival);
  }
  instance.requests = std::move(batch);
  while (!instance.requests.empty()) {
    std::shared_ptr<Request> faulty;
    Status status = fill(instance, &faulty);
    if (status.isOk()) {
      version.worker->run(version, instance);
      return;
    }
    instance.inputBuffer = instance.outputBuffer = nullptr;
    std::vector<std::shared_ptr<Request>> ended = faulty ? std::vector{faulty} : instance.requests;
    for (const std::shared_ptr<Request> &request : ended) {
      std::erase(instance.requests, request);
      end(request, Result<InferResult>(status));
    }
  }
}

Status ModelManager::fill(Instance &instance, std::shared_ptr<Request> *faulty) {
  Clock::time_point start = Clock::now();
  const Request &first = *instance.requests[0];
  instance.padded = paddedLength(instance.requests);
  std::vector<TensorPlace> places = placeInputs(instance);
  uint64_t at = tableBytes(places);
  for (TensorPlace &place : places) {
    place.offset = alignTensor(at);
    at = place.offset + place.bytes;
  }
  uint64_t outputOffset = alignTensor(at);
  TENON_ASSIGN(instance.inputBuffer,
               first.version->worker->buffers().take(
                   outputOffset + std::max(first.version->outputRoom, kFirstRoom)));
  MutableBytes buffer = instance.inputBuffer->memory->bytes();
  writeTable(buffer, 0, places);
  for (size_t i = 0; i < places.size(); ++i) {
    uint64_t offset = places[i].offset;
    for (const std::shared_ptr<Request> &request : instance.requests) {
      const RequestInput &input = request->payload.inputs[request->order[i]];
      std::vector<int64_t> dims = places[i].dims;
      if (!dims.empty()) {
        dims[0] = input.dims[0];
      }
      MutableBytes to = buffer.subspan(offset, bytesOf(dims, input.dtype));
      offset += to.size();
      *faulty = request;
      TENON_TRY(store(*request, input, dims, to));
      *faulty = nullptr;
    }
  }
  instance.outputBuffer = instance.inputBuffer;
  RequestSlot &slot = instance.slot();
  slot.inputBuffer = slot.outputBuffer = instance.inputBuffer->number;
  slot.inputCount = static_cast<uint32_t>(places.size());
  instance.outputOffset = slot.outputOffset = outputOffset;
  instance.outputEnd = slot.outputEnd = buffer.size();
  instance.copyIn = nanosecondsSince(start);
  for (const std::shared_ptr<Request> &request : instance.requests) {
    request->times.copyIn = instance.copyIn;
  }
  return Status::ok();
}

void ModelManager::runAnswered(Version &version, Instance &instance) {
  std::shared_ptr<Version> held =
      version.shared_from_this(); // answers to clients may unload or replace it
  finish(version, instance);
  dispatch(version);
  finishUnload(version);
  retryLoads();
}

void ModelManager::finish(Version &version, Instance &instance) {
  RunAnswer answered = readAnswer(instance.slot());
  constexpr uint64_t kMaxHeld = uint64_t(1) << 50; // no sum overflows
  instance.heldBytes = std::min(answered.heldBytes, kMaxHeld);
  uint64_t held = version.sharedBytes;
  for (const std::unique_ptr<Instance> &each : version.instances) {
    held += each->heldBytes;
  }
  version.bytes = std::max(version.bytes, held);
  for (const std::shared_ptr<Request> &request : instance.requests) {
    request->times.compute += answered.computeNanoseconds;
  }
  Status status = std::move(answered.failure);
  if (answered.outcome == RequestSlot::Outcome::NeedsRoom) {
    status = provideRoom(instance, answered.roomNeeded);
    if (status.isOk()) {
      version.worker->run(version, instance);
      return;
    }
  }
  if (answered.outcome == RequestSlot::Outcome::Done) {
    Result<std::vector<TensorPlace>> outputs = readOutputs(version, instance);
    if (outputs.isOk()) {
      answer(version, instance, *outputs);
      return;
    }
    status = outputs.takeStatus();
  }
  std::vector<std::shared_ptr<Request>> requests = std::exchange(instance.requests, {});
  instance.inputBuffer = instance.outputBuffer = nullptr;
  if (requests.size() == 1) {
    end(requests[0], std::move(status));
    return;
  }
  // The fault may be of one of them: each runs again, alone.
  for (size_t i = requests.size(); i-- > 0;) {
    requests[i]->canBatch = false;
    if (!requests[i]->isCancelled) {
      version.queue.pushFront(requests[i]);
    }
  }
}

Status ModelManager::provideRoom(Instance &instance, uint64_t bytes) {
  if (bytes <= instance.outputEnd - instance.outputOffset) {
    return damaged("it asks for room that it has");
  }
  Version &version = *instance.requests[0]->version;
  TENON_ASSIGN(instance.outputBuffer, version.worker->buffers().take(bytes));
  constexpr uint64_t kMaxRemembered = 64 << 20;
  version.outputRoom = std::max(version.outputRoom, std::min(bytes, kMaxRemembered));
  RequestSlot &slot = instance.slot();
  slot.outputBuffer = instance.outputBuffer->number;
  instance.outputOffset = slot.outputOffset = 0;
  instance.outputEnd = slot.outputEnd = instance.outputBuffer->memory->bytes().size();
  return Status::ok();
}

Result<std::vector<TensorPlace>> ModelManager::readOutputs(const Version &version,
                                                           const Instance &instance) {
  const std::vector<ModelPort> &ports = version.ports.outputs;
  TENON_ASSIGN(std::vector<TensorPlace> outputs, readTable(instance.outputBuffer->memory->bytes(),
                                                           instance.outputOffset, ports.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!isOutputOf(ports[i], outputs[i])) {
      return damaged("an output does not fit the model");
    }
    if (instance.requests.size() == 1) {
      continue;
    }
    bool fits =
        !outputs[i].dims.empty() && outputs[i].dims[0] == static_cast<int64_t>(instance.rows());
    for (size_t d = 1; fits && instance.padded > 0 && d < outputs[i].dims.size(); ++d) {
      fits = ports[i].dims[d] != version.batch->paddedDim || outputs[i].dims[d] == instance.padded;
    }
    if (!fits) {
      return Status::error(
          ErrorId::NotBatchable,
          fmt::format("output '{}' has another number of rows or places than its inputs",
                      ports[i].name));
    }
  }
  return outputs;
}

void ModelManager::answer(Version &version, Instance &instance,
                          const std::vector<TensorPlace> &outputs) {
  uint64_t rows = instance.rows(), firstRow = 0;
  int64_t padded = instance.padded;
  std::vector<std::shared_ptr<Request>> requests = std::exchange(instance.requests, {});
  std::shared_ptr<SharedBuffer> buffer = std::move(instance.outputBuffer);
  instance.inputBuffer = instance.outputBuffer = nullptr;
  version.statistics->inferences += rows;
  ++version.statistics->executions;
  if (version.hasRows()) {
    BatchStatistics &batch = version.statistics->batches[rows];
    batch.copyIn.add(instance.copyIn);
    batch.compute.add(requests[0]->times.compute);
  }
  for (const std::shared_ptr<Request> &request : requests) {
    InferResult result = {
        request->version,      buffer, outputs, rows, request->times, request->arrival,
        request->payload.trace};
    for (size_t i = 0; requests.size() > 1 && i < outputs.size(); ++i) {
      result.outputs[i] = cutOutput(*request, version.ports.outputs[i], outputs[i], firstRow,
                                    padded, buffer->memory->data());
    }
    firstRow += request->rows;
    if (options.observer &&
        request->onEnd) { // else the caller has gone, and what the request refers to
      options.observer->answered(*request, result);
    }
    end(request, std::move(result));
  }
}

} // namespace tenon::server

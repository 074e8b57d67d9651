// The worker is not trusted to keep to the ports that it told.

#include "server/batching/Batch.h"

#include "runtime/tensors/Tensor.h"
#include "server/ipc/TensorBox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tenon::server {
namespace {

Status damaged(std::string_view what) {
  return Status::error(ErrorId::InternalError,
                       fmt::format("the worker's answer is damaged: {}", what));
}

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

} // namespace

uint64_t Batch::rows() const {
  uint64_t sum = 0;
  for (const std::shared_ptr<Request> &request : requests) {
    sum += request->rows;
  }
  return sum;
}

/// The inputs, without their offsets.
std::vector<TensorPlace> Batch::placeInputs() const {
  const Request &first = *requests[0];
  const std::vector<ModelPort> &ports = version.ports.inputs;
  std::vector<TensorPlace> places;
  for (size_t p = 0; p < ports.size(); ++p) {
    TensorPlace place = {0, 0, first.payload.inputs[first.order[p]].dims};
    if (requests.size() > 1) {
      place.dims[0] = static_cast<int64_t>(rows());
    }
    for (size_t i = 1; padded > 0 && i < place.dims.size(); ++i) {
      place.dims[i] = ports[p].dims[i] == version.batch->paddedDim ? padded : place.dims[i];
    }
    place.bytes = bytesOf(place.dims, ports[p].dtype);
    places.push_back(std::move(place));
  }
  return places;
}

Status Batch::place(uint64_t outputRoom) {
  padded = paddedLength(requests);
  places = placeInputs();
  uint64_t at = tableBytes(places);
  for (TensorPlace &place : places) {
    place.offset = alignTensor(at);
    at = place.offset + place.bytes;
  }
  outputOffset = alignTensor(at);
  TENON_ASSIGN(inputBuffer, version.worker()->buffers().take(outputOffset + outputRoom));
  return Status::ok();
}

void Batch::copy() {
  Clock::time_point start = Clock::now();
  MutableBytes buffer = inputBuffer->memory->bytes();
  writeTable(buffer, 0, places);
  problem = Status::ok();
  faulty = nullptr;
  for (size_t i = 0; i < places.size(); ++i) {
    uint64_t offset = places[i].offset;
    for (const std::shared_ptr<Request> &request : requests) {
      const RequestInput &input = request->payload.inputs[request->order[i]];
      std::vector<int64_t> dims = places[i].dims;
      if (!dims.empty()) {
        dims[0] = input.dims[0];
      }
      MutableBytes to = buffer.subspan(offset, bytesOf(dims, input.dtype));
      offset += to.size();
      try {
        problem = store(*request, input, dims, to);
      } catch (const std::bad_alloc &) {
        problem = Status::error(ErrorId::OutOfMemory, "out of memory for the request");
      }
      if (!problem.isOk()) {
        faulty = request;
        return;
      }
    }
  }
  copyIn = nanosecondsSince(start);
}

void Batch::handOver() {
  outputBuffer = inputBuffer;
  outputEnd = inputBuffer->memory->bytes().size();
  RequestSlot &slot = instance.slot();
  slot.inputBuffer = slot.outputBuffer = inputBuffer->number;
  slot.inputCount = static_cast<uint32_t>(places.size());
  slot.outputOffset = outputOffset;
  slot.outputEnd = outputEnd;
  for (const std::shared_ptr<Request> &request : requests) {
    request->times.copyIn = copyIn;
  }
}

Status Batch::provideRoom(uint64_t bytes) {
  if (bytes <= outputEnd - outputOffset) {
    return damaged("it asks for room that it has");
  }
  TENON_ASSIGN(outputBuffer, version.worker()->buffers().take(bytes));
  RequestSlot &slot = instance.slot();
  slot.outputBuffer = outputBuffer->number;
  outputOffset = slot.outputOffset = 0;
  outputEnd = slot.outputEnd = outputBuffer->memory->bytes().size();
  return Status::ok();
}

Result<std::vector<TensorPlace>> Batch::readOutputs() const {
  const std::vector<ModelPort> &ports = version.ports.outputs;
  TENON_ASSIGN(std::vector<TensorPlace> outputs,
               readTable(outputBuffer->memory->bytes(), outputOffset, ports.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!isOutputOf(ports[i], outputs[i])) {
      return damaged("an output does not fit the model");
    }
    if (requests.size() == 1) {
      continue;
    }
    bool fits = !outputs[i].dims.empty() && outputs[i].dims[0] == static_cast<int64_t>(rows());
    for (size_t d = 1; fits && padded > 0 && d < outputs[i].dims.size(); ++d) {
      fits = ports[i].dims[d] != version.batch->paddedDim || outputs[i].dims[d] == padded;
    }
    if (!fits) {
      return Status::error(
          ErrorId::NotBatchable,
          fmt::format("output '{}' has another number of rows or positions than its inputs",
                      ports[i].name));
    }
  }
  return outputs;
}

/// The rows of a request in an output, from row `first`. What padding made longer is cut off in
/// place.
TensorPlace Batch::cutOutput(const Request &request, const ModelPort &port, TensorPlace place,
                             uint64_t first) const {
  std::byte *buffer = outputBuffer->memory->data();
  uint64_t rowBytes = place.bytes / static_cast<uint64_t>(place.dims[0]);
  place.offset += first * rowBytes;
  place.bytes = request.rows * rowBytes;
  place.dims[0] = static_cast<int64_t>(request.rows);
  std::vector<int64_t> whole = place.dims;
  for (size_t i = 1; padded > 0 && i < place.dims.size(); ++i) {
    place.dims[i] = port.dims[i] == version.batch->paddedDim ? request.length : place.dims[i];
  }
  if (place.dims != whole) {
    copyBox(buffer + place.offset, place.dims, buffer + place.offset, whole, place.dims,
            bitWidth(port.dtype) / 8);
    place.bytes = bytesOf(place.dims, port.dtype);
  }
  return place;
}

std::vector<InferResult> Batch::cut(const std::vector<TensorPlace> &outputs) const {
  std::vector<InferResult> results;
  uint64_t firstRow = 0;
  for (const std::shared_ptr<Request> &request : requests) {
    InferResult &result =
        results.emplace_back(InferResult{request->version, outputBuffer, outputs, rows(),
                                         request->times, request->arrival, request->payload.trace});
    for (size_t i = 0; requests.size() > 1 && i < outputs.size(); ++i) {
      result.outputs[i] = cutOutput(*request, version.ports.outputs[i], outputs[i], firstRow);
    }
    firstRow += request->rows;
  }
  return results;
}

} // namespace tenon::server

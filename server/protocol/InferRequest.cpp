// Reads the tree that Json.cpp made; every key is looked at once, unknown ones are passed over as
// the protocol asks.

#include "server/protocol/InferRequest.h"

#include "server/protocol/DataType.h"
#include "server/protocol/JsonText.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <set>

namespace tenon::server {
namespace {

Status malformed(std::string_view what) {
  return Status::error(ErrorId::BadRequest, fmt::format("the request is not valid: {}", what));
}

Status badTensor(std::string_view name, std::string_view what) {
  return Status::error(ErrorId::BadRequestTensor, fmt::format("input '{}': {}", name, what));
}

/// A member that may be missing; of another type it is an error.
Status readString(const Json &object, const char *key, std::string &value) {
  Json::const_iterator found = object.find(key);
  if (found == object.end()) {
    return Status::ok();
  }
  if (!found->is_string()) {
    return malformed(fmt::format("'{}' is not a string", key));
  }
  value = found->get<std::string>();
  return value.size() <= kMaxName
             ? Status::ok()
             : malformed(fmt::format("'{}' is longer than {} bytes", key, kMaxName));
}

Status readBool(const Json &object, const char *key, bool &value) {
  Json::const_iterator found = object.find(key);
  if (found == object.end()) {
    return Status::ok();
  }
  if (!found->is_boolean()) {
    return malformed(fmt::format("'{}' must be true or false", key));
  }
  value = found->get<bool>();
  return Status::ok();
}

Status readNumber(const Json &object, const char *key, std::optional<uint64_t> &value) {
  Json::const_iterator found = object.find(key);
  if (found == object.end()) {
    return Status::ok();
  }
  if (!found->is_number_unsigned()) {
    return malformed(fmt::format("'{}' must be a whole number of 0 or more", key));
  }
  value = found->get<uint64_t>();
  return Status::ok();
}

/// The parameters of a request, input or output; an empty object where there are none.
Result<Json> readParameters(const Json &object) {
  Json::const_iterator found = object.find("parameters");
  if (found == object.end()) {
    return Json(Json::object());
  }
  if (!found->is_object()) {
    return malformed("'parameters' is not an object");
  }
  if (found->contains("shared_memory_region")) {
    return regionsNotServed();
  }
  return *found;
}

Status readShape(const Json &object, RequestInput &input) {
  Json::const_iterator shape = object.find("shape");
  if (shape == object.end() || !shape->is_array() || shape->size() > kMaxRank) {
    return badTensor(input.name,
                     fmt::format("'shape' must be an array of at most {} numbers", kMaxRank));
  }
  for (const Json &dim : *shape) {
    if (!dim.is_number_unsigned() ||
        dim.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return badTensor(input.name, "a dimension must be a whole number of 0 or more");
    }
    input.dims.push_back(dim.get<int64_t>());
  }
  return countBytes(input);
}

/// `rest` is what is left of the binary part.
Status readElements(const Json &object, const Json &parameters, InferRequest &request,
                    RequestInput &input, std::string_view &rest) {
  std::optional<uint64_t> binarySize;
  TENON_TRY(readNumber(parameters, "binary_data_size", binarySize));
  Json::const_iterator data = object.find("data");
  if (binarySize.has_value() == (data != object.end())) {
    return badTensor(input.name, binarySize ? "it has both 'data' and 'binary_data_size'"
                                            : "it has neither 'data' nor 'binary_data_size'");
  }
  if (binarySize) {
    if (*binarySize != input.bytes) {
      return badTensor(input.name,
                       fmt::format("'binary_data_size' is {}, but type and shape need {} bytes",
                                   *binarySize, input.bytes));
    }
    if (*binarySize > rest.size()) {
      return malformed(
          fmt::format("the body ends within the binary data of input '{}'", input.name));
    }
    input.binary = std::as_bytes(std::span(rest.substr(0, *binarySize)));
    rest.remove_prefix(*binarySize);
    return Status::ok();
  }
  if (!data->is_number_unsigned() || data->get<uint64_t>() >= request.lists.size()) {
    return badTensor(input.name, "'data' is not an array");
  }
  input.list = data->get<size_t>();
  uint64_t elements = request.lists[*input.list].size();
  uint64_t wanted = input.bytes / (bitWidth(input.dtype) / 8);
  if (elements != wanted) {
    return badTensor(input.name,
                     fmt::format("'data' has {} elements, but the shape has {}", elements, wanted));
  }
  return Status::ok();
}

/// `names` are those of the inputs before.
Status readInput(const Json &object, InferRequest &request, std::set<std::string> &names,
                 std::string_view &rest) {
  if (!object.is_object()) {
    return malformed("an input is not an object");
  }
  RequestInput input;
  std::string dtype;
  TENON_TRY(readString(object, "name", input.name));
  TENON_TRY(readString(object, "datatype", dtype));
  if (!names.insert(input.name).second) {
    return badTensor(input.name, "it is given twice");
  }
  std::optional<DType> parsed = parseProtocolName(dtype);
  if (!parsed) {
    return badTensor(input.name, fmt::format("no model here uses the datatype '{}'", dtype));
  }
  input.dtype = *parsed;
  TENON_TRY(readShape(object, input));
  TENON_ASSIGN(Json parameters, readParameters(object));
  TENON_TRY(readElements(object, parameters, request, input, rest));
  request.inputs.push_back(std::move(input));
  return Status::ok();
}

Status readOutput(const Json &object, InferRequest &request) {
  if (!object.is_object()) {
    return malformed("an output is not an object");
  }
  RequestedOutput output = {"", request.binaryByDefault};
  TENON_TRY(readString(object, "name", output.name));
  TENON_ASSIGN(Json parameters, readParameters(object));
  TENON_TRY(readBool(parameters, "binary_data", output.isBinary));
  std::optional<uint64_t> classes;
  TENON_TRY(readNumber(parameters, "classification", classes));
  if (classes.value_or(0) != 0) {
    return classificationNotServed();
  }
  request.outputs.push_back(std::move(output));
  return Status::ok();
}

Status readRequestParameters(const Json &root, InferRequest &request) {
  TENON_ASSIGN(Json parameters, readParameters(root));
  TENON_TRY(readBool(parameters, "binary_data_output", request.binaryByDefault));
  std::optional<uint64_t> priority, timeout;
  TENON_TRY(readNumber(parameters, "priority", priority));
  TENON_TRY(readNumber(parameters, "timeout", timeout));
  request.timeoutMicroseconds = timeout.value_or(0);
  request.priority = priority.value_or(0);
  for (const char *key : {"sequence_id", "sequence_start", "sequence_end"}) {
    Json::const_iterator found = parameters.find(key);
    bool isUnset = found == parameters.end() || *found == 0 || *found == false || *found == "";
    if (!isUnset) {
      return sequencesNotServed();
    }
  }
  return Status::ok();
}

} // namespace

Result<InferRequest> parseInferRequest(std::string_view body, std::optional<uint64_t> jsonBytes,
                                       MemoryBudget *budget) {
  if (jsonBytes.value_or(0) > body.size()) {
    return malformed(fmt::format("Inference-Header-Content-Length is {}, but the body has {} bytes",
                                 *jsonBytes, body.size()));
  }
  std::string_view rest = jsonBytes ? body.substr(*jsonBytes) : std::string_view();
  InferRequest request;
  request.charge = MemoryCharge(budget);
  Json root;
  TENON_TRY(parseRequestJson(body.substr(0, jsonBytes.value_or(body.size())), root, &request.lists,
                             &request.charge));
  if (!root.is_object()) {
    return malformed("its JSON is not an object");
  }
  TENON_TRY(readString(root, "id", request.id));
  TENON_TRY(readRequestParameters(root, request));
  Json::const_iterator inputs = root.find("inputs");
  if (inputs == root.end() || !inputs->is_array()) {
    return malformed("'inputs' is not an array");
  }
  std::set<std::string> names;
  for (const Json &input : *inputs) {
    TENON_TRY(readInput(input, request, names, rest));
  }
  if (!rest.empty()) {
    return malformed(fmt::format("the body has {} bytes more than its inputs need", rest.size()));
  }
  Json::const_iterator outputs = root.find("outputs");
  if (outputs != root.end()) {
    if (!outputs->is_array()) {
      return malformed("'outputs' is not an array");
    }
    for (const Json &output : *outputs) {
      TENON_TRY(readOutput(output, request));
    }
  }
  return request;
}

Status countBytes(RequestInput &input) {
  unsigned __int128 bytes = bitWidth(input.dtype) / 8;
  for (int64_t dim : input.dims) {
    bytes *= static_cast<uint64_t>(dim);
    if (bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return badTensor(input.name, "the shape has too many elements to count");
    }
  }
  input.bytes = static_cast<uint64_t>(bytes);
  return Status::ok();
}

Status regionsNotServed() {
  return Status::error(ErrorId::NotServed, "shared-memory regions are not supported",
                       "send tensors in the body of the request");
}
Status sequencesNotServed() {
  return Status::error(ErrorId::NotServed, "sequences are not supported",
                       "send each request on its own");
}
Status classificationNotServed() {
  return Status::error(ErrorId::NotServed, "classification of outputs is not supported",
                       "request the output and sort it in the client");
}

namespace {

/// The elements as an array, written piece by piece, so that memory is charged as it is taken.
Status writeElements(ChargedText &out, const ReplyOutput &output) {
  size_t piece = (16 << 10) * (bitWidth(output.dtype) / 8);
  Bytes rest = output.bytes;
  do {
    Bytes next = rest.subspan(0, std::min(piece, rest.size()));
    std::string &text = out.tail();
    size_t from = text.size();
    TENON_TRY(appendJsonElements(text, output.dtype, next, output.name));
    if (rest.size() != output.bytes.size()) {
      text[from] = ','; // it goes on what came before
    }
    rest = rest.subspan(next.size());
    if (!rest.empty()) {
      text.pop_back();
    }
    TENON_TRY(out.settle());
  } while (!rest.empty());
  return Status::ok();
}

} // namespace

Result<InferReply> writeInferReply(std::string_view model, std::string_view version,
                                   std::string_view id, const std::vector<ReplyOutput> &outputs,
                                   uint64_t maxElements, MemoryBudget *budget) {
  uint64_t elements = 0;
  for (const ReplyOutput &output : outputs) {
    elements += output.isBinary ? 0 : output.bytes.size() / (bitWidth(output.dtype) / 8);
  }
  if (elements > maxElements) {
    return Status::error(
        ErrorId::RequestTooLarge,
        fmt::format("the outputs have {} elements, but a JSON reply has at most {}", elements,
                    maxElements),
        "request the outputs as binary data");
  }
  InferReply reply(budget);
  std::string &head = reply.json.tail();
  head = "{";
  if (!id.empty()) {
    head += "\"id\":";
    appendJsonString(head, id);
    head += ',';
  }
  head += "\"model_name\":";
  appendJsonString(head, model);
  head += ",\"model_version\":";
  appendJsonString(head, version);
  head += ",\"outputs\":[";
  for (const ReplyOutput &output : outputs) {
    std::string &json = reply.json.tail();
    json += &output == outputs.data() ? "{\"name\":" : ",{\"name\":";
    appendJsonString(json, output.name);
    fmt::format_to(std::back_inserter(json), ",\"datatype\":\"{}\",\"shape\":[{}],",
                   protocolName(output.dtype), fmt::join(output.dims, ","));
    if (output.isBinary) {
      reply.hasBinary = true;
      fmt::format_to(std::back_inserter(json), "\"parameters\":{{\"binary_data_size\":{}}}",
                     output.bytes.size());
    } else {
      json += "\"data\":";
      TENON_TRY(writeElements(reply.json, output));
    }
    reply.json.tail() += '}';
  }
  reply.json.tail() += "]}";
  TENON_TRY(reply.json.settle());
  return reply;
}

} // namespace tenon::server

// Fields are told apart by number and wire type together: protozero only asserts types. What is
// unknown is skipped, as protocol buffers ask.

#include "server/grpc/Infer.h"

#include "server/grpc/Framing.h"
#include "server/protocol/DataType.h"

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>

#include <set>

namespace tenon::server {
namespace {

using protozero::pbf_reader;
using protozero::tag_and_type;
using Wire = protozero::pbf_wire_type;

constexpr size_t kMaxTensors = 1024;

Status badTensor(std::string_view name, std::string_view what) {
  return Status::error(ErrorId::BadRequestTensor, fmt::format("input '{}': {}", name, what));
}

std::string_view viewOf(protozero::data_view view) { return {view.data(), view.size()}; }

Status readName(pbf_reader &reader, std::string &name) {
  std::string_view view = viewOf(reader.get_view());
  if (view.size() > kMaxName) {
    return malformedMessage(fmt::format("a name is longer than {} bytes", kMaxName));
  }
  name = view;
  return Status::ok();
}

struct Parameter {
  std::string_view key;
  std::string_view text;
  uint64_t number = 0; ///< of a boolean or an integer; 1 for any other number
  bool isSet() const { return number != 0 || !text.empty(); }
};

/// An entry of a map from names to InferParameter.
Parameter readParameter(pbf_reader entry) {
  Parameter parameter;
  while (entry.next()) {
    switch (entry.tag_and_type()) {
    case tag_and_type(1, Wire::length_delimited):
      parameter.key = viewOf(entry.get_view());
      break;
    case tag_and_type(2, Wire::length_delimited): {
      pbf_reader value = entry.get_message();
      while (value.next()) {
        switch (value.tag_and_type()) {
        case tag_and_type(1, Wire::varint):
        case tag_and_type(2, Wire::varint):
        case tag_and_type(5, Wire::varint):
          parameter.number = value.get_uint64();
          break;
        case tag_and_type(3, Wire::length_delimited):
          parameter.text = viewOf(value.get_view());
          break;
        case tag_and_type(4, Wire::fixed64):
          parameter.number = value.get_double() != 0 ? 1 : 0;
          break;
        default:
          value.skip();
        }
      }
      break;
    }
    default:
      entry.skip();
    }
  }
  return parameter;
}

Status readRequestParameter(const Parameter &parameter, InferRequest &request) {
  if (parameter.key == "timeout") {
    request.timeoutMicroseconds = parameter.number;
  } else if (parameter.key == "priority") {
    request.priority = parameter.number;
  } else if (parameter.key.starts_with("sequence_") && parameter.isSet()) {
    return sequencesNotServed();
  }
  return Status::ok();
}

/// An input while its message is read.
struct Input {
  RequestInput tensor;
  std::string datatype;
  std::string_view contents;
};

Status addDim(Input &input, int64_t dim) {
  if (dim < 0) {
    return badTensor(input.tensor.name, "a dimension is negative");
  }
  if (input.tensor.dims.size() == kMaxRank) {
    return badTensor(input.tensor.name, fmt::format("it has more than {} dimensions", kMaxRank));
  }
  input.tensor.dims.push_back(dim);
  return Status::ok();
}

Status readInput(pbf_reader reader, Input &input) {
  while (reader.next()) {
    switch (reader.tag_and_type()) {
    case tag_and_type(1, Wire::length_delimited):
      TENON_TRY(readName(reader, input.tensor.name));
      break;
    case tag_and_type(2, Wire::length_delimited):
      TENON_TRY(readName(reader, input.datatype));
      break;
    case tag_and_type(3, Wire::length_delimited):
      for (int64_t dim : reader.get_packed_int64()) {
        TENON_TRY(addDim(input, dim));
      }
      break;
    case tag_and_type(3, Wire::varint):
      TENON_TRY(addDim(input, reader.get_int64()));
      break;
    case tag_and_type(4, Wire::length_delimited):
      if (readParameter(reader.get_message()).key == "shared_memory_region") {
        return regionsNotServed();
      }
      break;
    case tag_and_type(5, Wire::length_delimited):
      input.contents = viewOf(reader.get_view());
      break;
    default:
      reader.skip();
    }
  }
  std::optional<DType> dtype = parseProtocolName(input.datatype);
  if (!dtype) {
    return badTensor(input.tensor.name,
                     fmt::format("no model here uses the datatype '{}'", input.datatype));
  }
  input.tensor.dtype = *dtype;
  return countBytes(input.tensor);
}

Status readOutput(pbf_reader reader, InferRequest &request) {
  RequestedOutput output = {"", true};
  while (reader.next()) {
    switch (reader.tag_and_type()) {
    case tag_and_type(1, Wire::length_delimited):
      TENON_TRY(readName(reader, output.name));
      break;
    case tag_and_type(2, Wire::length_delimited): {
      Parameter parameter = readParameter(reader.get_message());
      if (parameter.key == "shared_memory_region") {
        return regionsNotServed();
      }
      if (parameter.key == "classification" && parameter.isSet()) {
        return classificationNotServed();
      }
      break;
    }
    default:
      reader.skip();
    }
  }
  request.outputs.push_back(std::move(output));
  return Status::ok();
}

/// The field of InferTensorContents that has the elements of a type; 0: none.
uint32_t contentsField(DType dtype) {
  switch (dtype) {
  case DType::Bool:
    return 1;
  case DType::I8:
  case DType::I16:
  case DType::I32:
    return 2;
  case DType::I64:
    return 3;
  case DType::U8:
  case DType::U16:
  case DType::U32:
    return 4;
  case DType::U64:
    return 5;
  case DType::F32:
    return 6;
  case DType::F64:
    return 7;
  default:
    return 0;
  }
}

/// Appends an integer as the elements of `dtype` are; false where the type does not have it.
bool appendInteger(DType dtype, uint64_t value, std::string &out) {
  unsigned bits = static_cast<unsigned>(bitWidth(dtype));
  bool isSigned = contentsField(dtype) == 2 || contentsField(dtype) == 3;
  if (dtype == DType::Bool) {
    value = value != 0;
  } else if (bits < 64) {
    int64_t limit = int64_t(1) << (isSigned ? bits - 1 : bits);
    int64_t number = static_cast<int64_t>(value);
    if (number >= limit || number < (isSigned ? -limit : 0)) {
      return false;
    }
  }
  out.append(reinterpret_cast<const char *>(&value),
             bits / 8); // little-endian, as all that Tenon runs on
  return true;
}

/// Elements that came as numbers, as bytes of the input's type.
Status readContents(const Input &input, std::string &out) {
  DType dtype = input.tensor.dtype;
  uint32_t field = contentsField(dtype);
  Wire wire = field == 6 ? Wire::fixed32 : field == 7 ? Wire::fixed64 : Wire::varint;
  auto badCount = [&] {
    return badTensor(input.tensor.name,
                     fmt::format("its contents do not have the {} elements of the shape",
                                 input.tensor.bytes / (bitWidth(dtype) / 8)));
  };
  auto add = [&](uint64_t value) {
    if (out.size() >= input.tensor.bytes) {
      return badCount();
    }
    return appendInteger(dtype, value, out)
               ? Status::ok()
               : badTensor(input.tensor.name,
                           fmt::format("element {} is larger than {}",
                                       out.size() / (bitWidth(dtype) / 8), input.datatype));
  };
  pbf_reader reader(input.contents.data(), input.contents.size());
  while (reader.next()) {
    if (field == 0 || reader.tag() != field) {
      return badTensor(input.tensor.name,
                       field == 0
                           ? fmt::format("{} must be sent in raw_input_contents", input.datatype)
                           : fmt::format("its contents have another type than {}", input.datatype));
    }
    if (reader.wire_type() != Wire::length_delimited && reader.wire_type() != wire) {
      return malformedMessage("a field has another type than the protocol specifies");
    }
    if (reader.wire_type() == Wire::varint) {
      TENON_TRY(add(reader.get_uint64()));
    } else if (reader.wire_type() == Wire::fixed32) {
      uint32_t value = reader.get_fixed32();
      out.append(reinterpret_cast<const char *>(&value), sizeof(value));
    } else if (reader.wire_type() == Wire::fixed64) {
      uint64_t value = reader.get_fixed64();
      out.append(reinterpret_cast<const char *>(&value), sizeof(value));
    } else if (wire == Wire::varint) {
      for (uint64_t value : reader.get_packed_uint64()) {
        TENON_TRY(add(value));
      }
    } else {
      out += viewOf(reader.get_view());
    }
    if (out.size() > input.tensor.bytes) {
      return badCount();
    }
  }
  return out.size() == input.tensor.bytes ? Status::ok() : badCount();
}

/// Gives each input its elements: its contents, or the next of the raw ones.
Status placeElements(std::vector<Input> &inputs, const std::vector<std::string_view> &raw,
                     GrpcInferRequest &result) {
  MemoryCharge &charge = result.request.charge;
  size_t nextRaw = 0;
  for (Input &input : inputs) {
    RequestInput &tensor = input.tensor;
    std::string_view elements;
    if (!input.contents.empty()) {
      TENON_TRY(charge.resize(charge.size() + tensor.bytes));
      std::string &numbers = result.numbers.emplace_back();
      TENON_TRY(readContents(input, numbers));
      elements = numbers;
    } else if (nextRaw < raw.size()) {
      elements = raw[nextRaw++];
    } else if (tensor.bytes > 0) {
      return badTensor(tensor.name, "it has neither contents nor raw_input_contents");
    }
    if (elements.size() != tensor.bytes) {
      return badTensor(
          tensor.name,
          fmt::format("its raw_input_contents have {} bytes, but type and shape need {}",
                      elements.size(), tensor.bytes));
    }
    tensor.binary = std::as_bytes(std::span(elements));
    result.request.inputs.push_back(std::move(tensor));
  }
  return nextRaw == raw.size()
             ? Status::ok()
             : malformedMessage(fmt::format("it has {} raw_input_contents more than inputs",
                                            raw.size() - nextRaw));
}

Status parse(std::string_view message, GrpcInferRequest &result) {
  std::vector<Input> inputs;
  std::vector<std::string_view> raw;
  std::set<std::string> names;
  result.request.binaryByDefault = true;
  pbf_reader reader(message.data(), message.size());
  while (reader.next()) {
    if (inputs.size() > kMaxTensors || raw.size() > kMaxTensors ||
        result.request.outputs.size() > kMaxTensors) {
      return malformedMessage(fmt::format("it has more than {} tensors", kMaxTensors));
    }
    switch (reader.tag_and_type()) {
    case tag_and_type(1, Wire::length_delimited):
      TENON_TRY(readName(reader, result.model));
      break;
    case tag_and_type(2, Wire::length_delimited):
      TENON_TRY(readName(reader, result.version));
      break;
    case tag_and_type(3, Wire::length_delimited):
      TENON_TRY(readName(reader, result.request.id));
      break;
    case tag_and_type(4, Wire::length_delimited):
      TENON_TRY(readRequestParameter(readParameter(reader.get_message()), result.request));
      break;
    case tag_and_type(5, Wire::length_delimited): {
      Input &input = inputs.emplace_back();
      TENON_TRY(readInput(reader.get_message(), input));
      if (!names.insert(input.tensor.name).second) {
        return badTensor(input.tensor.name, "it is given twice");
      }
      break;
    }
    case tag_and_type(6, Wire::length_delimited):
      TENON_TRY(readOutput(reader.get_message(), result.request));
      break;
    case tag_and_type(7, Wire::length_delimited):
      raw.push_back(viewOf(reader.get_view()));
      break;
    default:
      reader.skip();
    }
  }
  return placeElements(inputs, raw, result);
}

} // namespace

Result<GrpcInferRequest> parseGrpcInfer(std::string_view message, MemoryBudget *budget) {
  GrpcInferRequest result;
  result.request.charge = MemoryCharge(budget);
  try {
    Status status = parse(message, result);
    return status.isOk() ? Result<GrpcInferRequest>(std::move(result))
                         : Result<GrpcInferRequest>(std::move(status));
  } catch (const protozero::exception &error) {
    return malformedMessage(error.what());
  }
}

} // namespace tenon::server

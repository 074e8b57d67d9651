// Relies on FlatBuffers' verifier for offsets, and looks at all numbers that stand for a place or a
// size.
#include "compiler/frontend/tflite/wire/ModelReader.h"

#include "support/text/Text.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::tflite {
namespace {

constexpr std::string_view kConvertAgain = "convert the model again";
constexpr uint32_t kVersion = 3;
constexpr size_t kMaxRank = 8;
constexpr int64_t kMaxElements = int64_t{1} << 40;

Status damaged(const std::string &what) {
  return Status::error(ErrorId::TfliteDamaged, what, std::string(kConvertAgain));
}

Status contradicts(ErrorId id, const std::string &what) {
  return Status::error(id, what, std::string(kConvertAgain));
}

constexpr std::string_view kTypeNames[] = {
    "FLOAT32", "FLOAT16",   "INT32",  "UINT8",   "INT64",      "STRING", "BOOL",
    "INT16",   "COMPLEX64", "INT8",   "FLOAT64", "COMPLEX128", "UINT64", "RESOURCE",
    "VARIANT", "UINT32",    "UINT16", "INT4",    "BFLOAT16"};

constexpr std::optional<DType> kTypes[] = {
    DType::F32,   DType::F16,   DType::I32, DType::U8,    DType::I64,   std::nullopt, DType::Bool,
    DType::I16,   std::nullopt, DType::I8,  DType::F64,   std::nullopt, DType::U64,   std::nullopt,
    std::nullopt, DType::U32,   DType::U16, std::nullopt, DType::BF16};

std::string nameOf(const fb::Tensor &tensor) {
  return tensor.name() ? tensor.name()->str() : std::string();
}

/// Of one subgraph, by its tables.
class GraphCheck {
public:
  GraphCheck(const fb::Model &whole, const fb::SubGraph &one, int64_t &rest)
      : model(whole), graph(one), budget(rest), defined(sizeOf(one.tensors())),
        written(sizeOf(one.tensors())) {}

  Status run() {
    for (size_t i = 0; i < defined.size(); ++i) {
      const fb::Tensor &tensor = *graph.tensors()->Get(static_cast<uint32_t>(i));
      if (Status status = checkTensor(tensor); !status) {
        return status.prefix(strCat("tensor '", nameOf(tensor), "'"));
      }
      defined[i] = isConstant(model, tensor) || tensor.is_variable();
    }
    for (const flatbuffers::Vector<int32_t> *ports : {graph.inputs(), graph.outputs()}) {
      TENON_TRY(checkIndices(ports, false));
    }
    forEach(graph.inputs(), [&](int32_t input) { defined[input] = written[input] = true; });
    Status status = Status::ok();
    forEach(graph.operators(), [&](const fb::Operator *op) {
      if (status.isOk()) {
        status = checkOperator(*op);
      }
    });
    TENON_TRY(std::move(status));
    forEach(graph.outputs(), [&](int32_t output) {
      if (status.isOk() && !defined[output]) {
        status = contradicts(ErrorId::OnnxUndefinedValue,
                             strCat("output '", nameAt(output), "' is never computed"));
      }
    });
    return status;
  }

private:
  std::string nameAt(int32_t tensor) const { return nameOf(*graph.tensors()->Get(tensor)); }

  Status checkTensor(const fb::Tensor &tensor) const {
    if (tensor.buffer() >= sizeOf(model.buffers())) {
      return damaged(strCat("it reads buffer ", tensor.buffer(), " of ", sizeOf(model.buffers())));
    }
    if (sizeOf(tensor.shape()) > kMaxRank) {
      return contradicts(ErrorId::OnnxRank, strCat("it has more than ", kMaxRank, " dimensions"));
    }
    int64_t count = 1;
    for (size_t i = 0; i < sizeOf(tensor.shape()); ++i) {
      int32_t dim = tensor.shape()->Get(static_cast<uint32_t>(i));
      if (dim < 0) {
        return contradicts(ErrorId::OnnxBadDim, strCat("dimension ", i, " is ", dim));
      }
      if (dim > 0 && count > kMaxElements / dim) {
        return contradicts(ErrorId::OnnxShapeOverflow, "it is larger than any memory");
      }
      count *= dim;
    }
    Bytes data = dataOf(model, tensor);
    std::optional<DType> type = typeOf(tensor);
    uint64_t expected = type ? static_cast<uint64_t>(count) * bitWidth(*type) / 8 : data.size();
    if (!data.empty() && data.size() != expected) {
      return contradicts(ErrorId::OnnxTensorSize, strCat("its shape and type need ", expected,
                                                         " bytes, but it has ", data.size()));
    }
    return checkQuantization(tensor);
  }

  static Status checkQuantization(const fb::Tensor &tensor) {
    if (!isQuantized(tensor)) {
      return Status::ok();
    }
    const fb::Quantization &stated = *tensor.quantization();
    size_t scales = sizeOf(stated.scale()), zeros = sizeOf(stated.zero_point());
    bool isOfDim =
        stated.dim() >= 0 && static_cast<size_t>(stated.dim()) < sizeOf(tensor.shape()) &&
        static_cast<size_t>(tensor.shape()->Get(static_cast<uint32_t>(stated.dim()))) == scales;
    if ((scales != 1 && !isOfDim) || (zeros > 1 && zeros != scales)) {
      return contradicts(ErrorId::OnnxBadNode, strCat("it has ", scales, " scales and ", zeros,
                                                      " zero points, which do not fit its shape"));
    }
    return Status::ok();
  }

  Status checkIndices(const flatbuffers::Vector<int32_t> *indices, bool mayBeAbsent) const {
    for (size_t i = 0; i < sizeOf(indices); ++i) {
      int32_t index = indices->Get(static_cast<uint32_t>(i));
      bool isAbsent = mayBeAbsent && index == -1;
      if (!isAbsent && (index < 0 || static_cast<size_t>(index) >= defined.size())) {
        return damaged(strCat("it names tensor ", index, " of ", defined.size()));
      }
    }
    return Status::ok();
  }

  Status checkOperator(const fb::Operator &op) {
    if (op.code() >= sizeOf(model.operator_codes())) {
      return damaged(
          strCat("an operator has code ", op.code(), " of ", sizeOf(model.operator_codes())));
    }
    // An honest file holds the lists of each operator for itself.
    budget -= static_cast<int64_t>(sizeOf(op.inputs()) + sizeOf(op.outputs())) + 1;
    if (budget < 0) {
      return damaged("its operators share their lists");
    }
    Status status = checkPorts(op);
    return status.isOk() ? status
                         : status.prefix(strCat(
                               "operator ", operatorName(*model.operator_codes()->Get(op.code()))));
  }

  Status checkPorts(const fb::Operator &op) {
    TENON_TRY(checkIndices(op.inputs(), true));
    TENON_TRY(checkIndices(op.outputs(), false));
    for (size_t i = 0; i < sizeOf(op.inputs()); ++i) {
      int32_t input = op.inputs()->Get(static_cast<uint32_t>(i));
      if (input >= 0 && !defined[input]) {
        return contradicts(ErrorId::OnnxNotSorted, strCat("it reads '", nameAt(input),
                                                          "', which nothing before it computes"));
      }
    }
    for (size_t i = 0; i < sizeOf(op.outputs()); ++i) {
      int32_t output = op.outputs()->Get(static_cast<uint32_t>(i));
      if (written[output] || !dataOf(model, *graph.tensors()->Get(output)).empty()) {
        return contradicts(ErrorId::OnnxDuplicateName,
                           strCat("it writes '", nameAt(output), "' once more"));
      }
      written[output] = true;
    }
    forEach(op.outputs(), [&](int32_t output) { defined[output] = true; });
    return Status::ok();
  }

  const fb::Model &model;
  const fb::SubGraph &graph;
  int64_t &budget;
  std::vector<bool> defined, written;
};

} // namespace

bool looksLikeModel(Bytes beginning) {
  return beginning.size() >= kIdentifierEnd &&
         std::memcmp(beginning.data() + kIdentifierEnd - 4, fb::ModelIdentifier(), 4) == 0;
}

Result<const fb::Model *> readModel(Bytes bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  if (bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE || !fb::VerifyModelBuffer(verifier)) {
    return damaged("it is not a well-formed FlatBuffer of a model");
  }
  const fb::Model &model = *fb::GetModel(bytes.data());
  if (model.version() != kVersion) {
    return damaged(strCat("it has version ", model.version(), " of the format, not ", kVersion));
  }
  if (sizeOf(model.subgraphs()) == 0) {
    return damaged("it has no graph");
  }
  bool isOutside = false;
  forEach(model.buffers(), [&](const fb::Buffer *buffer) { isOutside |= buffer->offset() > 1; });
  if (isOutside) {
    return damaged("it keeps constants behind the FlatBuffer, which Tenon does not read");
  }
  int64_t budget = static_cast<int64_t>(bytes.size());
  for (size_t i = 0; i < sizeOf(model.subgraphs()); ++i) {
    const fb::SubGraph &graph = *model.subgraphs()->Get(static_cast<uint32_t>(i));
    budget -= static_cast<int64_t>(sizeOf(graph.tensors()));
    if (budget < 0) {
      return damaged("its graphs share their tensors");
    }
    TENON_TRY(GraphCheck(model, graph, budget).run().prefix(strCat("graph ", i)));
  }
  return &model;
}

Bytes dataOf(const fb::Model &model, const fb::Tensor &tensor) {
  const flatbuffers::Vector<uint8_t> *data = model.buffers()->Get(tensor.buffer())->data();
  return data ? std::as_bytes(std::span(data->data(), data->size())) : Bytes();
}

bool isConstant(const fb::Model &model, const fb::Tensor &tensor) {
  bool isEmpty = false;
  forEach(tensor.shape(), [&](int32_t dim) { isEmpty |= dim == 0; });
  return isEmpty || !dataOf(model, tensor).empty();
}

std::optional<DType> typeOf(const fb::Tensor &tensor) {
  size_t type = static_cast<size_t>(tensor.type());
  return type < std::size(kTypes) ? kTypes[type] : std::nullopt;
}

std::string typeName(const fb::Tensor &tensor) {
  size_t type = static_cast<size_t>(tensor.type());
  return type < std::size(kTypeNames) ? std::string(kTypeNames[type])
                                      : strCat("type ", static_cast<int>(tensor.type()));
}

bool isQuantized(const fb::Tensor &tensor) {
  std::optional<DType> type = typeOf(tensor);
  bool isInteger = type == DType::I8 || type == DType::U8 || type == DType::I16 ||
                   type == DType::I32 || type == DType::I64;
  return isInteger && tensor.quantization() && sizeOf(tensor.quantization()->scale()) > 0;
}

} // namespace tenon::tflite

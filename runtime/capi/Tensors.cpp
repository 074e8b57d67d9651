// Reads DLPack's fields by their documented values; nothing of a tensor's data is touched.

#include "runtime/capi/Tensors.h"

#include "support/Shape.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cstddef>

namespace tenon::capi {

using engine::Port;
using runtime::Place;

namespace {

// The offsets of DLTensor on a 64-bit machine.
static_assert(offsetof(tenon_tensor, rank) == 16 && offsetof(tenon_tensor, type_code) == 20 &&
              offsetof(tenon_tensor, dims) == 24 && offsetof(tenon_tensor, byte_offset) == 40);

constexpr int32_t kOnHost = 1;
constexpr int32_t kOnCuda = 2;
constexpr int32_t kPageLocked = 3;

struct TypePair {
  DType type;
  uint8_t code;
  uint8_t bits;
};

constexpr TypePair kTypes[] = {
    {DType::F32, 2, 32},    {DType::F64, 2, 64},        {DType::F16, 2, 16},
    {DType::BF16, 4, 16},   {DType::I8, 0, 8},          {DType::I16, 0, 16},
    {DType::I32, 0, 32},    {DType::I64, 0, 64},        {DType::U8, 1, 8},
    {DType::U16, 1, 16},    {DType::U32, 1, 32},        {DType::U64, 1, 64},
    {DType::Bool, 6, 8},    {DType::F8E4M3FN, 10, 8},   {DType::F8E4M3FNUZ, 11, 8},
    {DType::F8E5M2, 12, 8}, {DType::F8E5M2FNUZ, 13, 8}, {DType::I4, 0, 4},
    {DType::U4, 1, 4},      {DType::Complex64, 5, 64},  {DType::Complex128, 5, 128},
    {DType::F8E8M0, 14, 8}, {DType::F4E2M1, 17, 4},     {DType::I2, 0, 2},
    {DType::U2, 1, 2}};

Status countError(const char *kind, size_t given, size_t expected) {
  return Status::error(ErrorId::RunInputCount,
                       strCat(given, " ", kind, " were given, but the engine has ", expected),
                       "pass one tensor for each, in the engine's order");
}

/// One tensor against the port that it is for.
class TensorReader {
public:
  TensorReader(const char *portKind, const Port &enginePort, const tenon_tensor &given,
               std::optional<int> engineGpu)
      : kind(portKind), port(enginePort), tensor(given), gpu(engineGpu) {}

  Status check() const {
    bool isType = std::ranges::any_of(kTypes, [&](const TypePair &pair) {
      return pair.type == port.dtype && pair.code == tensor.type_code &&
             pair.bits == tensor.type_bits && tensor.type_lanes == 1;
    });
    if (!isType) {
      return Status::error(ErrorId::WrongTensorType,
                           strCat(kind, " '", port.name, "' is of type ", nameOf(port.dtype),
                                  ", but the tensor has type code ", int(tensor.type_code),
                                  " with ", int(tensor.type_bits), " bits"),
                           "convert the tensor");
    }
    if (tensor.rank < 0 || (tensor.rank != 0 && !tensor.dims)) {
      return error("its dims are missing");
    }
    if (!isDense()) {
      return error("its strides are not those of a dense row-major tensor");
    }
    bool isKnown = tensor.device_type == kOnHost || tensor.device_type == kPageLocked;
    if (tensor.device_type == kOnCuda) {
      isKnown = gpu == tensor.device_id;
    }
    return isKnown ? Status::ok()
                   : error(strCat("it lies on device ", tensor.device_type, ":", tensor.device_id,
                                  ", but the engine is on ",
                                  gpu ? strCat("GPU ", *gpu) : std::string("the CPU")));
  }

  std::span<const int64_t> dims() const { return {tensor.dims, static_cast<size_t>(tensor.rank)}; }
  Place place() const { return tensor.device_type == kOnCuda ? Place::Gpu : Place::Host; }
  void *data() const {
    return tensor.data ? static_cast<std::byte *>(tensor.data) + tensor.byte_offset : nullptr;
  }

private:
  bool isDense() const {
    int64_t expected = 1;
    for (int32_t i = tensor.rank; tensor.strides && i-- > 0;) {
      // A stride over one element or none says nothing.
      if (tensor.dims[i] > 1 && tensor.strides[i] != expected) {
        return std::ranges::find(dims(), 0) != dims().end();
      }
      if (__builtin_mul_overflow(expected, tensor.dims[i], &expected)) {
        return false;
      }
    }
    return true;
  }

  Status error(std::string_view message) const {
    return Status::error(ErrorId::RunBadBinding, strCat(kind, " '", port.name, "': ", message),
                         "pass a dense tensor on the host or on the engine's GPU");
  }

  const char *kind;
  const Port &port;
  const tenon_tensor &tensor;
  std::optional<int> gpu;
};

} // namespace

Status bindInputs(const runtime::Engine &engine, std::span<const tenon_tensor *const> tensors,
                  std::vector<runtime::InputBinding> &bindings) {
  const std::vector<Port> &ports = engine.plan().inputs;
  if (tensors.size() != ports.size()) {
    return countError("inputs", tensors.size(), ports.size());
  }
  bindings.clear();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]) {
      return Status::error(ErrorId::RunBadBinding, strCat("input '", ports[i].name, "' is null"),
                           "pass a tensor");
    }
    TensorReader reader("input", ports[i], *tensors[i], engine.gpu());
    TENON_TRY(reader.check());
    bindings.push_back({reader.data(), reader.dims(), reader.place()});
  }
  return Status::ok();
}

Status bindOutputs(const runtime::Session &session, std::span<const tenon_tensor *const> tensors,
                   std::vector<runtime::OutputBinding> &bindings) {
  const std::vector<Port> &ports = session.engine().plan().outputs;
  if (tensors.size() != ports.size()) {
    return countError("outputs", tensors.size(), ports.size());
  }
  bindings.clear();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]) {
      bindings.push_back({});
      continue;
    }
    TensorReader reader("output", ports[i], *tensors[i], session.engine().gpu());
    TENON_TRY(reader.check());
    if (!std::ranges::equal(reader.dims(), session.outputDims(i))) {
      return Status::error(ErrorId::RunBadBinding,
                           strCat("output '", ports[i].name, "' has dims ",
                                  formatDims(session.outputDims(i)), ", but the tensor has ",
                                  formatDims(reader.dims())),
                           "pass a tensor with these dims");
    }
    bindings.push_back({reader.data(), session.outputBytes(i), reader.place()});
  }
  return Status::ok();
}

} // namespace tenon::capi

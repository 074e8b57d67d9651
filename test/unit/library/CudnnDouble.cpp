// Stands in for libcudnn.so.9: keeps the attributes of descriptors and runs finalized graphs on the
// host by the strides of their tensors. Written from the documentation of the backend interface.
// Engine 0 uses tensor cores, 1 is not deterministic, 2 wants too much memory, 3 and 4 are plain.

#include "Doubles.h"

#include "HostCall.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <optional>

using namespace tenon;
using namespace tenon::library;

extern "C" __attribute__((visibility("default"))) CudnnState tenonDoubleState;
CudnnState tenonDoubleState;

namespace {

constexpr int kBadParameter = 2000;
constexpr int kNotSupported = 3001;

struct Object {
  explicit Object(int newKind) : kind(newKind) { ++tenonDoubleState.alive; }
  Object(const Object &other) = default; // not counted: lives as long as the library
  ~Object() { --tenonDoubleState.alive; }

  template <typename T> std::vector<T> list(int name) const {
    auto found = attributes.find(name);
    if (found == attributes.end()) {
      return {};
    }
    std::vector<T> values(found->second.size() / sizeof(T));
    std::memcpy(values.data(), found->second.data(), found->second.size());
    return values;
  }
  template <typename T> T value(int name) const { return list<T>(name).at(0); }
  Object *object(int name) const { return value<Object *>(name); }

  int kind;
  bool isFinal = false;
  int engine = -1; ///< of engines and their configurations
  std::map<int, std::vector<char>> attributes;
};

size_t widthOf(int type) {
  switch (type) {
  case 0:  // handle
  case 3:  // int64
  case 5:  // double
  case 6:  // pointer
  case 15: // descriptor
    return 8;
  case 2:  // boolean
  case 24: // character
    return 1;
  default:
    return 4;
  }
}

DType typeOf(int type) {
  return type == 0 ? DType::F32 : type == 1 ? DType::F64 : type == 2 ? DType::F16 : DType::BF16;
}

/// The values of a graph's tensors while it runs, dense in the order of their dims.
class Run {
public:
  explicit Run(const Object *variantPack) {
    std::vector<int64_t> ids = variantPack->list<int64_t>(1000);
    std::vector<char *> data = variantPack->list<char *>(1001);
    for (size_t i = 0; i < ids.size(); ++i) {
      pointers[ids[i]] = data[i];
    }
  }

  bool operation(const Object *op) {
    switch (op->kind) {
    case 10:
      return convolution(op);
    case 13:
      return pointwise(op);
    case 19:
      return matmul(op);
    default:
      return op->kind == 22 && reduction(op);
    }
  }

private:
  struct Tensor {
    std::vector<int64_t> dims, strides;
    HostBuffer values;
    double at(int64_t n, int64_t c, int64_t h, int64_t w) const {
      int64_t index[] = {n, c, h, w}, place = 0;
      for (int i = 0; i < 4; ++i) {
        place = place * dims[i] + (dims[i] == 1 ? 0 : index[i]);
      }
      return values[static_cast<size_t>(place)];
    }
  };

  template <typename Fn> static void forEach(const std::vector<int64_t> &dims, Fn fn) {
    for (int64_t n = 0; n < dims[0]; ++n) {
      for (int64_t c = 0; c < dims[1]; ++c) {
        for (int64_t h = 0; h < dims[2]; ++h) {
          for (int64_t w = 0; w < dims[3]; ++w) {
            fn(n, c, h, w);
          }
        }
      }
    }
  }

  Tensor describe(const Object *tensor) const {
    Tensor result{tensor->list<int64_t>(902), tensor->list<int64_t>(903), {}};
    for (std::vector<int64_t> *list : {&result.dims, &result.strides}) {
      list->insert(list->begin(), 4 - list->size(), 1);
    }
    return result;
  }

  char *place(const Object *tensor, const Tensor &layout, int64_t n, int64_t c, int64_t h,
              int64_t w) {
    int64_t offset = n * layout.strides[0] + c * layout.strides[1] + h * layout.strides[2] +
                     w * layout.strides[3];
    size_t width = bitWidth(typeOf(tensor->value<int>(901))) / 8;
    return pointers.at(tensor->value<int64_t>(906)) + static_cast<size_t>(offset) * width;
  }

  Tensor load(const Object *tensor) {
    if (tensor->value<char>(907)) {
      return between.at(tensor->value<int64_t>(906));
    }
    Tensor result = describe(tensor);
    DType type = typeOf(tensor->value<int>(901));
    forEach(result.dims, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
      const char *from = place(tensor, result, n, c, h, w);
      result.values.push_back(
          decode(type, Bytes(reinterpret_cast<const std::byte *>(from), bitWidth(type) / 8))[0]);
    });
    return result;
  }

  void store(const Object *tensor, Tensor result) {
    if (tensor->value<char>(907)) {
      between[tensor->value<int64_t>(906)] = std::move(result);
      return;
    }
    DType type = typeOf(tensor->value<int>(901));
    forEach(result.dims, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
      double value = result.at(n, c, h, w);
      std::vector<std::byte> bytes = encode(type, std::span(&value, 1));
      std::memcpy(place(tensor, result, n, c, h, w), bytes.data(), bytes.size());
    });
  }

  bool convolution(const Object *op) {
    Object *detail = op->object(702);
    std::vector<int64_t> dilations = detail->list<int64_t>(102),
                         strides = detail->list<int64_t>(103), pads = detail->list<int64_t>(105);
    Tensor x = load(op->object(704)), w = load(op->object(703)), y = describe(op->object(705));
    int64_t depth = w.dims[1], width = w.dims[0] / (x.dims[1] / depth);
    forEach(y.dims, [&](int64_t n, int64_t k, int64_t p, int64_t q) {
      double sum = 0;
      for (int64_t i = 0; i < w.dims[2]; ++i) {
        for (int64_t j = 0; j < w.dims[3]; ++j) {
          int64_t row = p * strides[0] + i * dilations[0] - pads[0];
          int64_t column = q * strides[1] + j * dilations[1] - pads[1];
          bool isInside = row >= 0 && row < x.dims[2] && column >= 0 && column < x.dims[3];
          for (int64_t c = 0; isInside && c < depth; ++c) {
            sum += x.at(n, k / width * depth + c, row, column) * w.at(k, c, i, j);
          }
        }
      }
      y.values.push_back(sum);
    });
    store(op->object(705), std::move(y));
    return true;
  }

  /// Heads of the second operand serve as many of the first as there are more.
  bool matmul(const Object *op) {
    Tensor a = load(op->object(1520)), b = load(op->object(1521)), y = describe(op->object(1522));
    int64_t shared = a.dims[1] / b.dims[1];
    forEach(y.dims, [&](int64_t n, int64_t head, int64_t row, int64_t column) {
      double sum = 0;
      for (int64_t l = 0; l < a.dims[3]; ++l) {
        sum += a.at(n, head, row, l) * b.at(n, head / shared, l, column);
      }
      y.values.push_back(sum);
    });
    store(op->object(1522), std::move(y));
    return true;
  }

  bool reduction(const Object *op) {
    bool isMax = op->object(1612)->value<int>(1600) == 3;
    Tensor x = load(op->object(1610)), y = describe(op->object(1611));
    forEach(y.dims, [&](int64_t n, int64_t c, int64_t h, int64_t) {
      double value = isMax ? -INFINITY : 0;
      for (int64_t w = 0; w < x.dims[3]; ++w) {
        value = isMax ? std::max(value, x.at(n, c, h, w)) : value + x.at(n, c, h, w);
      }
      y.values.push_back(value);
    });
    store(op->object(1611), std::move(y));
    return isMax || op->object(1612)->value<int>(1600) == 0;
  }

  static std::optional<double> apply(int mode, double x, double b) {
    switch (mode) {
    case 0:
      return x + b;
    case 1:
      return x * b;
    case 2:
      return std::min(x, b);
    case 6:
      return x / b;
    case 9:
      return x - b;
    case 13:
      return std::exp(x);
    case 15:
      return std::log(x);
    case 100:
      return std::max(x, 0.0);
    case 101:
      return std::tanh(x);
    case 104:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case 107:
      return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    default:
      return std::nullopt;
    }
  }

  bool pointwise(const Object *op) {
    int mode = op->object(750)->value<int>(0);
    bool hasTwo = !op->list<Object *>(752).empty();
    Tensor x = load(op->object(751)), y = describe(op->object(753));
    Tensor b = hasTwo ? load(op->object(752)) : Tensor{};
    bool isKnown = true;
    forEach(y.dims, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
      std::optional<double> value = apply(mode, x.at(n, c, h, w), hasTwo ? b.at(n, c, h, w) : 0);
      isKnown &= value.has_value();
      y.values.push_back(value.value_or(0));
    });
    store(op->object(753), std::move(y));
    return isKnown;
  }

  std::map<int64_t, char *> pointers;
  std::map<int64_t, Tensor> between;
};

/// Convolutions of tensors whose channels do not lie next to each other have no engine here.
bool hasConvolutionLayouts(const Object *graph) {
  for (const Object *operation : graph->list<Object *>(801)) {
    for (int name : {703, 704, 705}) {
      if (operation->kind == 10 && operation->object(name)->list<int64_t>(903)[1] != 1) {
        return false;
      }
    }
  }
  return true;
}

bool isRefused(const Object *graph) {
  std::vector<Object *> operations = graph->list<Object *>(801);
  bool hasConvolution =
      std::any_of(operations.begin(), operations.end(), [](Object *op) { return op->kind == 10; });
  return tenonDoubleState.refuseAll ||
         (tenonDoubleState.refuseFused && hasConvolution && operations.size() > 1);
}

/// A copy that lives on without the descriptors that it was made of, as a stored plan does.
Object *copied(const Object *object) {
  static std::deque<Object> copies;
  Object *copy = &copies.emplace_back(*object);
  for (int name : {201, 702, 703, 704, 705, 750, 751, 752, 753, 801, 1520, 1521, 1522, 1523, 1610,
                   1611, 1612}) {
    std::vector<Object *> parts = object->list<Object *>(name);
    for (Object *&part : parts) {
      part = copied(part);
    }
    if (!parts.empty()) {
      const char *bytes = reinterpret_cast<const char *>(parts.data());
      copy->attributes[name].assign(bytes, bytes + parts.size() * sizeof(Object *));
    }
  }
  return copy;
}

/// What was stored, by the number that stands for it.
std::vector<Object *> &storedPlans() {
  static std::vector<Object *> plans;
  return plans;
}

int describePlan(const Object *plan, int64_t room, int64_t *count, void *values) {
  int64_t number = static_cast<int64_t>(storedPlans().size());
  *count = sizeof(number);
  if (room >= *count) {
    storedPlans().push_back(copied(plan->object(401)));
    std::memcpy(values, &number, sizeof(number));
  }
  return 0;
}

int restorePlan(Object *plan) {
  std::vector<int64_t> number = plan->list<int64_t>(405);
  if (tenonDoubleState.refuseRestore || number.size() != 1 ||
      static_cast<size_t>(number[0]) >= storedPlans().size()) {
    return kNotSupported;
  }
  const char *bytes =
      reinterpret_cast<const char *>(&storedPlans()[static_cast<size_t>(number[0])]);
  plan->attributes[401].assign(bytes, bytes + sizeof(Object *));
  return 0;
}

template <typename T> int give(T value, int64_t *count, void *values) {
  *count = 1;
  std::memcpy(values, &value, sizeof(value));
  return 0;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cudnnCreate(void **context) {
  *context = &tenonDoubleState;
  return 0;
}
EXPORT int cudnnDestroy(void *) { return 0; }
EXPORT int cudnnSetStream(void *, void *stream) {
  tenonDoubleState.stream = stream;
  return 0;
}
EXPORT size_t cudnnGetVersion() { return 91203; }
EXPORT const char *cudnnGetErrorString(int) { return "CUDNN_STATUS_DOUBLE"; }

EXPORT int cudnnBackendCreateDescriptor(int kind, void **descriptor) {
  *descriptor = new Object(kind);
  return 0;
}
EXPORT int cudnnBackendDestroyDescriptor(void *descriptor) {
  delete static_cast<Object *>(descriptor);
  return 0;
}

EXPORT int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count,
                                    const void *values) {
  Object *object = static_cast<Object *>(descriptor);
  if (object->isFinal || count < 1) {
    return kBadParameter;
  }
  const char *bytes = static_cast<const char *>(values);
  object->attributes[name].assign(bytes, bytes + static_cast<size_t>(count) * widthOf(type));
  return 0;
}

EXPORT int cudnnBackendFinalize(void *descriptor) {
  Object *object = static_cast<Object *>(descriptor);
  object->isFinal = true;
  if (object->kind == 5 && object->attributes.contains(405)) {
    return restorePlan(object);
  }
  if (object->kind == 4) {
    ++tenonDoubleState.heuristics;
    return isRefused(object->object(201)) ? kNotSupported : 0;
  }
  if (object->kind == 1) {
    tenonDoubleState.mathType = object->value<int>(100);
  }
  return object->kind == 15 && !hasConvolutionLayouts(object) ? kBadParameter : 0;
}

EXPORT int cudnnBackendGetAttribute(void *descriptor, int name, int, int64_t room, int64_t *count,
                                    void *values) {
  Object *object = static_cast<Object *>(descriptor);
  switch (name) {
  case 202: // answers of a heuristic
    *count = tenonDoubleState.engines;
    for (int64_t i = 0; i < std::min(room, *count); ++i) {
      static_cast<Object **>(values)[i]->engine = static_cast<int>(i);
      static_cast<Object **>(values)[i]->attributes = object->attributes;
    }
    return 0;
  case 300: // engine of a configuration
    (*static_cast<Object **>(values))->engine = object->engine;
    *count = 1;
    return 0;
  case 1301:
    return give<int64_t>(object->engine, count, values);
  case 1303:
    *count = 0;
    return object->engine == 0   ? give<int>(0, count, values)
           : object->engine == 1 ? give<int>(4, count, values)
                                 : 0;
  case 405:
    return describePlan(object, room, count, values);
  case 402:
    return give<int64_t>(object->object(401)->engine == 2
                             ? int64_t(1) << 40
                             : static_cast<int64_t>(tenonDoubleState.workspace),
                         count, values);
  default:
    return kBadParameter;
  }
}

EXPORT int cudnnBackendExecute(void *, void *plan, void *pack) {
  Object *config = static_cast<Object *>(plan)->object(401);
  tenonDoubleState.engine = config->engine;
  ++tenonDoubleState.executions;
  Run run(static_cast<Object *>(pack));
  for (Object *operation : config->object(201)->list<Object *>(801)) {
    if (!run.operation(operation)) {
      return 5000;
    }
  }
  return 0;
}

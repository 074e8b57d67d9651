// A descriptor as the stand-in for cuDNN keeps it, and a graph of them run on the host by the
// strides of its tensors. Relies on the numbers of the backend interface's documentation.

#pragma once

#include "Doubles.h"
#include "HostCall.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

extern "C" __attribute__((visibility("default"))) CudnnState tenonDoubleState;

namespace tenon::library {

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

inline DType typeOf(int type) {
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

} // namespace tenon::library

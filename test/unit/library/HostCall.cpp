// Loops as the descriptor's comment states them. Relies on nothing else.

#include "HostCall.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tenon::library {
namespace {

double activate(engine::LibraryActivation activation, double x) {
  switch (activation) {
  case engine::LibraryActivation::Relu:
    return std::max(x, 0.0);
  case engine::LibraryActivation::GeluTanh:
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case engine::LibraryActivation::None:
    break;
  }
  return x;
}

/// The operands behind the first two.
struct Rest {
  template <typename Call>
  Rest(const Call &call, std::span<HostBuffer> buffers)
      : bias(call.hasBias ? &buffers[2] : nullptr),
        residual(call.hasResidual ? &buffers[2 + call.hasBias] : nullptr),
        activation(call.activation), result(buffers.back()) {}

  void store(size_t at, size_t column, double product) {
    double sum = product + (bias ? (*bias)[column] : 0) + (residual ? (*residual)[at] : 0);
    result[at] = activate(activation, sum);
  }

  const HostBuffer *bias;
  const HostBuffer *residual;
  engine::LibraryActivation activation;
  HostBuffer &result;
};

template <typename To, typename From> void storeAs(std::byte *to, From value) {
  To converted = static_cast<To>(value);
  std::memcpy(to, &converted, sizeof(converted));
}

template <typename From> double loadAs(const std::byte *from) {
  From value;
  std::memcpy(&value, from, sizeof(value));
  return static_cast<double>(value);
}

/// Of a sign, 4 bits of an exponent whose bias is 7, and 3 of a fraction.
uint8_t toFloat8(double value) {
  int exponent = 0;
  double fraction = std::frexp(std::fabs(value), &exponent); // of 0.5 and more
  int code = value == 0 ? 0 : ((exponent + 6) << 3) + static_cast<int>(fraction * 16) - 8;
  return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

double fromFloat8(uint8_t code) {
  int exponent = code >> 3 & 15, fraction = code & 7;
  double value = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return code & 0x80 ? -value : value;
}

uint16_t toBFloat16(double value) {
  uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace

std::vector<size_t> bufferElements(const engine::MatmulCall &call, std::span<const int64_t> sizes) {
  int64_t m = sizes[0], n = sizes[1], k = sizes[2], batch = sizes[3];
  auto extent = [&](bool transpose, int64_t rows, int64_t columns, int64_t leading,
                    int64_t stride) {
    int64_t stored = transpose ? columns : rows, width = transpose ? rows : columns;
    return static_cast<size_t>((batch - 1) * stride + (stored - 1) * leading + width);
  };
  std::vector<size_t> elements = {extent(call.transposeA, m, k, sizes[4], sizes[7]),
                                  extent(call.transposeB, k, n, sizes[5], sizes[8])};
  if (call.hasBias) {
    elements.push_back(static_cast<size_t>(n));
  }
  elements.resize(3u + call.hasBias + call.hasResidual, extent(false, m, n, sizes[6], sizes[9]));
  return elements;
}

void runOnHost(const engine::MatmulCall &call, std::span<const int64_t> sizes,
               std::span<HostBuffer> buffers) {
  int64_t m = sizes[0], n = sizes[1], k = sizes[2], batch = sizes[3];
  int64_t lda = sizes[4], ldb = sizes[5], ldd = sizes[6];
  Rest rest(call, buffers);
  for (int64_t g = 0; g < batch; ++g) {
    const double *a = buffers[0].data() + g * sizes[7];
    const double *b = buffers[1].data() + g * sizes[8];
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += a[call.transposeA ? l * lda + i : i * lda + l] *
                 b[call.transposeB ? j * ldb + l : l * ldb + j];
        }
        rest.store(static_cast<size_t>(g * sizes[9] + i * ldd + j), static_cast<size_t>(j), sum);
      }
    }
  }
}

std::vector<size_t> bufferElements(const engine::ScaledMatmulCall &call,
                                   std::span<const int64_t> sizes) {
  size_t n = static_cast<size_t>(sizes[1]), result = static_cast<size_t>(sizes[0]) * n;
  std::vector<size_t> elements = {static_cast<size_t>((sizes[0] - 1) * sizes[3] + sizes[2]),
                                  static_cast<size_t>((sizes[1] - 1) * sizes[4] + sizes[2])};
  if (call.hasBias) {
    elements.push_back(n);
  }
  elements.resize(3u + call.hasBias + call.hasResidual, result);
  return elements;
}

void runOnHost(const engine::ScaledMatmulCall &call, std::span<const int64_t> sizes,
               std::span<HostBuffer> buffers) {
  int64_t m = sizes[0], n = sizes[1], k = sizes[2];
  Rest rest(call, buffers);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += buffers[0][static_cast<size_t>(i * sizes[3] + l)] *
               buffers[1][static_cast<size_t>(j * sizes[4] + l)];
      }
      rest.store(static_cast<size_t>(i * n + j), static_cast<size_t>(j),
                 sum * static_cast<double>(call.factor));
    }
  }
}

std::vector<size_t> bufferElements(const engine::ConvCall &call, std::span<const int64_t> sizes) {
  auto product = [&](std::initializer_list<int64_t> dims) {
    int64_t count = 1;
    for (int64_t dim : dims) {
      count *= dim;
    }
    return static_cast<size_t>(count);
  };
  std::vector<size_t> elements = {product({sizes[0], sizes[1], sizes[2], sizes[3]}),
                                  product({sizes[4], sizes[5], sizes[6], sizes[3] / call.groups})};
  if (call.hasBias) {
    elements.push_back(static_cast<size_t>(sizes[4]));
  }
  elements.resize(3u + call.hasBias + call.hasResidual,
                  product({sizes[0], sizes[7], sizes[8], sizes[4]}));
  return elements;
}

void runOnHost(const engine::ConvCall &call, std::span<const int64_t> sizes,
               std::span<HostBuffer> buffers) {
  int64_t n = sizes[0], h = sizes[1], w = sizes[2], c = sizes[3], k = sizes[4], r = sizes[5],
          s = sizes[6], p = sizes[7], q = sizes[8];
  int64_t depth = c / call.groups, width = k / call.groups;
  Rest rest(call, buffers);
  auto window = [&](int64_t image, int64_t y, int64_t x, int64_t channel) {
    double sum = 0;
    for (int64_t i = 0; i < r; ++i) {
      for (int64_t j = 0; j < s; ++j) {
        int64_t row = y * call.strides[0] + i * call.dilations[0] - call.padBefore[0];
        int64_t column = x * call.strides[1] + j * call.dilations[1] - call.padBefore[1];
        if (row < 0 || row >= h || column < 0 || column >= w) {
          continue;
        }
        const double *data = &buffers[0][static_cast<size_t>(((image * h + row) * w + column) * c +
                                                             channel / width * depth)];
        const double *filter =
            &buffers[1][static_cast<size_t>(((channel * r + i) * s + j) * depth)];
        for (int64_t l = 0; l < depth; ++l) {
          sum += data[l] * filter[l];
        }
      }
    }
    return sum;
  };
  for (int64_t image = 0; image < n; ++image) {
    for (int64_t y = 0; y < p; ++y) {
      for (int64_t x = 0; x < q; ++x) {
        for (int64_t channel = 0; channel < k; ++channel) {
          size_t at = static_cast<size_t>(((image * p + y) * q + x) * k + channel);
          rest.store(at, static_cast<size_t>(channel), window(image, y, x, channel));
        }
      }
    }
  }
}

namespace {

/// The place of an element by the strides of batch, head and row that begin at `strides`.
size_t placeOf(const int64_t *strides, int64_t offset, int64_t batch, int64_t head, int64_t row) {
  return static_cast<size_t>(offset + batch * strides[0] + head * strides[1] + row * strides[2]);
}

} // namespace

std::vector<size_t> bufferElements(const engine::AttentionCall &call,
                                   std::span<const int64_t> sizes) {
  int64_t batch = sizes[0], heads = sizes[1], keyHeads = sizes[2], queries = sizes[3],
          keys = sizes[4], width = sizes[5], valueWidth = sizes[6];
  auto extent = [&](size_t strides, int64_t offset, int64_t count, int64_t rows, int64_t columns) {
    return placeOf(&sizes[strides], offset, batch - 1, count - 1, rows - 1) +
           static_cast<size_t>(columns);
  };
  std::vector<size_t> elements = {extent(7, sizes[22], heads, queries, width),
                                  extent(10, sizes[23], keyHeads, keys, width),
                                  extent(13, sizes[24], keyHeads, keys, valueWidth)};
  if (call.hasMask) {
    elements.push_back(extent(19, 0, heads, queries, keys));
  }
  elements.push_back(extent(16, 0, heads, queries, valueWidth));
  return elements;
}

void runOnHost(const engine::AttentionCall &call, std::span<const int64_t> sizes,
               std::span<HostBuffer> buffers) {
  int64_t heads = sizes[1], keys = sizes[4], width = sizes[5], valueWidth = sizes[6];
  int64_t shared = heads / sizes[2];
  std::vector<double> weights(static_cast<size_t>(keys));
  auto row = [&](int64_t batch, int64_t head, int64_t query) {
    const double *q = &buffers[0][placeOf(&sizes[7], sizes[22], batch, head, query)];
    double most = -INFINITY, sum = 0;
    for (int64_t key = 0; key < keys; ++key) {
      const double *k = &buffers[1][placeOf(&sizes[10], sizes[23], batch, head / shared, key)];
      double score = 0;
      for (int64_t i = 0; i < width; ++i) {
        score += q[i] * k[i];
      }
      score *= static_cast<double>(call.scale);
      score += call.hasMask ? (&buffers[3][placeOf(&sizes[19], 0, batch, head, query)])[key] : 0;
      most = std::max(most, score);
      weights[static_cast<size_t>(key)] = score;
    }
    for (double &weight : weights) {
      sum += weight = std::exp(weight - most);
    }
    double *y = &buffers.back()[placeOf(&sizes[16], 0, batch, head, query)];
    for (int64_t i = 0; i < valueWidth; ++i) {
      y[i] = 0;
      for (int64_t key = 0; key < keys; ++key) {
        y[i] += weights[static_cast<size_t>(key)] / sum *
                buffers[2][placeOf(&sizes[13], sizes[24] + i, batch, head / shared, key)];
      }
    }
  };
  for (int64_t batch = 0; batch < sizes[0]; ++batch) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t query = 0; query < sizes[3]; ++query) {
        row(batch, head, query);
      }
    }
  }
}

std::vector<std::byte> encode(DType type, std::span<const double> values) {
  size_t width = bitWidth(type) / 8;
  std::vector<std::byte> bytes(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte *to = bytes.data() + i * width;
    switch (type) {
    case DType::F64:
      storeAs<double>(to, values[i]);
      break;
    case DType::F16:
      storeAs<_Float16>(to, values[i]);
      break;
    case DType::BF16:
      storeAs<uint16_t>(to, toBFloat16(values[i]));
      break;
    case DType::F8E4M3FN:
      storeAs<uint8_t>(to, toFloat8(values[i]));
      break;
    default:
      storeAs<float>(to, values[i]);
    }
  }
  return bytes;
}

HostBuffer decode(DType type, Bytes bytes) {
  size_t width = bitWidth(type) / 8;
  HostBuffer values(bytes.size() / width);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte *from = bytes.data() + i * width;
    switch (type) {
    case DType::F64:
      values[i] = loadAs<double>(from);
      break;
    case DType::F16:
      values[i] = loadAs<_Float16>(from);
      break;
    case DType::BF16:
      values[i] = std::bit_cast<float>(static_cast<uint32_t>(loadAs<uint16_t>(from)) << 16);
      break;
    case DType::F8E4M3FN:
      values[i] = fromFloat8(static_cast<uint8_t>(*from));
      break;
    default:
      values[i] = loadAs<float>(from);
    }
  }
  return values;
}

} // namespace tenon::library

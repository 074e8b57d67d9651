// Stands in for libcublasLt.so.13: keeps the attributes it is given, checks their sizes, and
// computes column-major products on the host. Written from the library's documentation, so that
// what it is told must be what the real one would understand.

#include "Doubles.h"

#include "HostCall.h"

#include <cmath>
#include <cstring>
#include <vector>

using namespace tenon;
using namespace tenon::library;

namespace {

constexpr int kInvalid = 7;

struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct Desc {
  int compute, scale;
  int32_t transA = 0, transB = 0;
  uint32_t epilogue = 1;
  const void *bias = nullptr;
  int32_t biasType = -1;
  int8_t isFast = 0;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t schemes = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

struct Algo {
  uint64_t data[8];
};

struct Heuristic {
  Algo algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

DType typeOf(int type) {
  return type == 0    ? DType::F32
         : type == 1  ? DType::F64
         : type == 2  ? DType::F16
         : type == 28 ? DType::F8E4M3FN
                      : DType::BF16;
}

/// False, without reading, if the attribute has another size.
template <typename T> int take(T &to, const void *from, size_t bytes) {
  if (bytes != sizeof(T)) {
    return kInvalid;
  }
  std::memcpy(&to, from, bytes);
  return 0;
}

/// A column-major matrix of one batch, as doubles.
HostBuffer load(const void *data, const Layout &layout, int32_t batch) {
  size_t width = bitWidth(typeOf(layout.type)) / 8;
  size_t count = (layout.columns - 1) * static_cast<size_t>(layout.leading) + layout.rows;
  const std::byte *from =
      static_cast<const std::byte *>(data) + static_cast<size_t>(batch * layout.stride) * width;
  return decode(typeOf(layout.type), Bytes(from, count * width));
}

double element(const HostBuffer &matrix, const Layout &layout, uint64_t row, uint64_t column) {
  return matrix[column * static_cast<size_t>(layout.leading) + row];
}

double finish(uint32_t epilogue, double x) {
  if (epilogue & 2) {
    return x > 0 ? x : 0;
  }
  return epilogue & 32 ? x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
                       : x;
}

} // namespace

extern "C" __attribute__((visibility("default"))) CublasLtState tenonDoubleState;
CublasLtState tenonDoubleState;

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cublasLtCreate(void **context) {
  *context = &tenonDoubleState;
  return 0;
}
EXPORT int cublasLtDestroy(void *) { return 0; }
EXPORT size_t cublasLtGetVersion() { return 130203; }
EXPORT const char *cublasLtGetStatusName(int) { return "CUBLAS_STATUS_DOUBLE"; }

EXPORT int cublasLtMatrixLayoutCreate(Layout **layout, int type, uint64_t rows, uint64_t columns,
                                      int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) {
    return kInvalid;
  }
  *layout = new Layout{type, rows, columns, leading};
  return 0;
}
EXPORT int cublasLtMatrixLayoutDestroy(Layout *layout) {
  delete layout;
  return 0;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(Layout *layout, int name, const void *value,
                                            size_t bytes) {
  return name == 5   ? take(layout->batch, value, bytes)
         : name == 6 ? take(layout->stride, value, bytes)
                     : kInvalid;
}

EXPORT int cublasLtMatmulDescCreate(Desc **desc, int compute, int scale) {
  *desc = new Desc{compute, scale};
  return 0;
}
EXPORT int cublasLtMatmulDescDestroy(Desc *desc) {
  delete desc;
  return 0;
}
EXPORT int cublasLtMatmulDescSetAttribute(Desc *desc, int name, const void *value, size_t bytes) {
  switch (name) {
  case 3:
    return take(desc->transA, value, bytes);
  case 4:
    return take(desc->transB, value, bytes);
  case 7:
    return take(desc->epilogue, value, bytes);
  case 8:
    return take(desc->bias, value, bytes);
  case 25:
    return take(desc->isFast, value, bytes);
  case 26:
    return take(desc->biasType, value, bytes);
  default:
    return kInvalid;
  }
}

EXPORT int cublasLtMatmulPreferenceCreate(Preference **preference) {
  *preference = new Preference;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceDestroy(Preference *preference) {
  delete preference;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int name, const void *value,
                                                size_t bytes) {
  if (name >= 5 && name <= 8) {
    return take(preference->alignments[name - 5], value, bytes);
  }
  return name == 1   ? take(preference->workspace, value, bytes)
         : name == 3 ? take(preference->schemes, value, bytes)
                     : kInvalid;
}

/// What the documentation asks of products of 8-bit floats on GPUs before sm_100.
static bool takesFloat8(const Desc &desc, const Layout &a, const Layout &b, const Layout &d) {
  auto isOnBorder = [](const Layout &layout) {
    return layout.rows % 16 == 0 && layout.leading % 16 == 0;
  };
  bool hasBias = (desc.epilogue & 4) != 0;
  return b.type == 28 && desc.isFast == 1 && desc.transA == 1 && desc.transB == 0 &&
         desc.compute == 68 && desc.scale == 0 && isOnBorder(a) && isOnBorder(b) && isOnBorder(d) &&
         (!hasBias || (d.type != 0 && desc.biasType == d.type));
}

// The first answer asks for more workspace than is allowed, as a careless library might.
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *, Desc *desc, Layout *a, Layout *b, Layout *,
                                          Layout *d, Preference *preference, int wanted,
                                          Heuristic *results, int *count) {
  if (tenonDoubleState.refuse || (a->type == 28 && !takesFloat8(*desc, *a, *b, *d))) {
    return 15;
  }
  ++tenonDoubleState.heuristics;
  tenonDoubleState.compute = desc->compute;
  tenonDoubleState.scale = desc->scale;
  tenonDoubleState.type = a->type;
  tenonDoubleState.epilogue = desc->epilogue;
  tenonDoubleState.reductionSchemes = preference->schemes;
  tenonDoubleState.alignment = preference->alignments[0];
  tenonDoubleState.biasAlignment = reinterpret_cast<uintptr_t>(desc->bias);
  *count = std::min(wanted, 4);
  for (int i = 0; i < *count; ++i) {
    results[i] = Heuristic{{{static_cast<uint64_t>(i)}}, preference->workspace, 0, 1, {}};
    results[i].workspace = i == 0 ? preference->workspace + 1 : static_cast<size_t>(i) * 256;
  }
  return 0;
}

EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const Algo *algo, int name, int32_t *value,
                                                size_t bytes, size_t *written) {
  bool isSmall = tenonDoubleState.hasSmallTile && algo->data[0] == 3;
  *value = name == 0   ? (isSmall ? 66 : static_cast<int32_t>(algo->data[0]))
           : !isSmall  ? -1
           : name == 1 ? 20
                       : 1;
  *written = bytes;
  return 0;
}

EXPORT int cublasLtMatmul(void *, Desc *desc, const void *alpha, const void *a, Layout *aLayout,
                          const void *b, Layout *bLayout, const void *beta, const void *c,
                          Layout *cLayout, void *d, Layout *dLayout, const Algo *algo, void *,
                          size_t workspace, void *stream) {
  tenonDoubleState.algorithm = static_cast<int>(algo->data[0]);
  tenonDoubleState.workspace = workspace;
  tenonDoubleState.stream = stream;
  bool isDouble = desc->scale == 1;
  double factors[] = {
      isDouble ? *static_cast<const double *>(alpha) : *static_cast<const float *>(alpha),
      isDouble ? *static_cast<const double *>(beta) : *static_cast<const float *>(beta)};
  DType type = typeOf(dLayout->type);
  size_t width = bitWidth(type) / 8;
  uint64_t depth = desc->transA ? aLayout->rows : aLayout->columns;
  if (depth != (desc->transB ? bLayout->columns : bLayout->rows)) {
    return kInvalid;
  }
  HostBuffer bias;
  if (desc->epilogue & 4) {
    bias = decode(type, Bytes(static_cast<const std::byte *>(desc->bias), dLayout->rows * width));
  }
  for (int32_t batch = 0; batch < dLayout->batch; ++batch) {
    HostBuffer left = load(a, *aLayout, batch), right = load(b, *bLayout, batch);
    HostBuffer sum;
    if (factors[1] != 0) {
      sum = load(c, *cLayout, batch);
    }
    for (uint64_t column = 0; column < dLayout->columns; ++column) {
      for (uint64_t row = 0; row < dLayout->rows; ++row) {
        double value = factors[1] != 0 ? factors[1] * element(sum, *cLayout, row, column) : 0;
        for (uint64_t l = 0; l < depth; ++l) {
          value +=
              factors[0] *
              (desc->transA ? element(left, *aLayout, l, row) : element(left, *aLayout, row, l)) *
              (desc->transB ? element(right, *bLayout, column, l)
                            : element(right, *bLayout, l, column));
        }
        double stored = finish(desc->epilogue, value + (bias.empty() ? 0 : bias[row]));
        std::vector<std::byte> bytes = encode(type, std::span(&stored, 1));
        std::memcpy(static_cast<std::byte *>(d) +
                        (static_cast<size_t>(batch * dLayout->stride +
                                             static_cast<int64_t>(column) * dLayout->leading) +
                         row) *
                            width,
                    bytes.data(), width);
      }
    }
  }
  return 0;
}

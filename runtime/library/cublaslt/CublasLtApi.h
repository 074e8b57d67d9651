// The part of cuBLASLt's C interface that Tenon calls, declared here so that building needs no
// header of NVIDIA. Names and values are those of cublasLt.h, cublas_api.h and library_types.h of
// CUDA 12 and 13; they are part of the library's binary interface.

#pragma once

#include "runtime/library/Loader.h"

#include <cstddef>
#include <cstdint>

namespace tenon::library::cublaslt {

struct Context;
struct MatrixLayout;
struct MatmulDesc;
struct MatmulPreference;

struct MatmulAlgo {
  uint64_t data[8];
};

struct HeuristicResult {
  MatmulAlgo algo;
  size_t workspaceSize;
  int state; ///< a status code
  float wavesCount;
  int reserved[4];
};

inline constexpr int kSuccess = 0;
inline constexpr int kNotSupported = 15;

enum DataType : int { kR32F = 0, kR64F = 1, kR16F = 2, kR16BF = 14, kR8FE4M3 = 28 };

enum ComputeType : int { kCompute32F = 68, kCompute64F = 70, kCompute32FFastTF32 = 77 };

enum Operation : int32_t { kOpN = 0, kOpT = 1 };

enum LayoutAttribute : int { kLayoutBatchCount = 5, kLayoutStridedBatchOffset = 6 };

enum DescAttribute : int {
  kDescTransA = 3,
  kDescTransB = 4,
  kDescEpilogue = 7,
  kDescBiasPointer = 8,
  kDescFastAccum = 25,
  kDescBiasType = 26,
};

enum PreferenceAttribute : int {
  kPrefMaxWorkspaceBytes = 1,
  kPrefReductionSchemeMask = 3,
  kPrefMinAlignmentABytes = 5,
  kPrefMinAlignmentBBytes = 6,
  kPrefMinAlignmentCBytes = 7,
  kPrefMinAlignmentDBytes = 8,
};

/// Split-K may add its parts in the type of the sums only.
enum ReductionScheme : uint32_t { kReductionComputeType = 2 };

enum Epilogue : uint32_t {
  kEpilogueDefault = 1,
  kEpilogueRelu = 2,
  kEpilogueBias = 4,
  kEpilogueGelu = 32, ///< the tanh form
};

enum AlgoConfig : int {
  kAlgoId = 0,
  kAlgoTile = 1,
  kAlgoSplitK = 2,
  kAlgoStages = 6,
};

/// The functions, in the order of the list below.
struct Api {
  OpenLibrary library;
  int (*create)(Context **);
  size_t (*getVersion)();
  const char *(*getStatusName)(int);
  int (*layoutCreate)(MatrixLayout **, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*layoutDestroy)(MatrixLayout *);
  int (*layoutSet)(MatrixLayout *, int attribute, const void *value, size_t bytes);
  int (*descCreate)(MatmulDesc **, int computeType, int scaleType);
  int (*descDestroy)(MatmulDesc *);
  int (*descSet)(MatmulDesc *, int attribute, const void *value, size_t bytes);
  int (*preferenceCreate)(MatmulPreference **);
  int (*preferenceDestroy)(MatmulPreference *);
  int (*preferenceSet)(MatmulPreference *, int attribute, const void *value, size_t bytes);
  int (*getHeuristic)(Context *, MatmulDesc *, MatrixLayout *a, MatrixLayout *b, MatrixLayout *c,
                      MatrixLayout *d, MatmulPreference *, int wanted, HeuristicResult *results,
                      int *count);
  int (*getAlgoConfig)(const MatmulAlgo *, int attribute, void *value, size_t bytes,
                       size_t *written);
  int (*matmul)(Context *, MatmulDesc *, const void *alpha, const void *a, MatrixLayout *aLayout,
                const void *b, MatrixLayout *bLayout, const void *beta, const void *c,
                MatrixLayout *cLayout, void *d, MatrixLayout *dLayout, const MatmulAlgo *,
                void *workspace, size_t workspaceBytes, void *stream);
};

/// Opens the library and finds every function.
Result<Api> openApi(const std::string &folder);

/// "13.1.0".
std::string versionOf(const Api &api);

} // namespace tenon::library::cublaslt

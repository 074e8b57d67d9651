// A stand-in of cuBLASLt beside PlantedGpu.cpp: a matmul takes what TENON_PLANTED_TIMES says of
// "matmul-start" (microseconds) and "matmul-teraflops", and computes nothing.

#include "runtime/library/cublaslt/CublasLtApi.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <string>

using namespace tenon::library::cublaslt;

namespace tenon::library::cublaslt {

struct Context {};
struct MatmulDesc {
  int32_t transposeA = 0;
};
struct MatmulPreference {};
struct MatrixLayout {
  uint64_t rows = 0, columns = 0;
  int32_t batch = 1;
  int type = kR16F;
};

} // namespace tenon::library::cublaslt

namespace {

double planted(const std::string &wanted, double otherwise) {
  const char *path = std::getenv("TENON_PLANTED_TIMES");
  std::ifstream file(path ? path : "");
  std::string name;
  double value = 0, found = otherwise;
  while (file >> name >> value) {
    found = name == wanted ? value : found;
  }
  return found;
}

int work(void *stream, double seconds) {
  using Work = int (*)(void *, double);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  Work moveOn = driver ? reinterpret_cast<Work>(dlsym(driver, "tenonPlantedWork")) : nullptr;
  return moveOn ? moveOn(stream, seconds) : 1;
}

Context theContext;
MatmulPreference thePreference;

} // namespace

#define PLANTED extern "C" __attribute__((visibility("default")))

PLANTED int cublasLtCreate(Context **context) {
  *context = &theContext;
  return kSuccess;
}
PLANTED size_t cublasLtGetVersion() { return 130100; }
PLANTED const char *cublasGetStatusName(int) { return "CUBLAS_STATUS_PLANTED"; }
PLANTED const char *cublasLtGetStatusName(int) { return "CUBLAS_STATUS_PLANTED"; }
PLANTED int cublasLtMatrixLayoutCreate(MatrixLayout **layout, int type, uint64_t rows,
                                       uint64_t columns, int64_t) {
  *layout = new MatrixLayout{rows, columns, 1, type};
  return kSuccess;
}
PLANTED int cublasLtMatrixLayoutDestroy(MatrixLayout *layout) {
  delete layout;
  return kSuccess;
}
PLANTED int cublasLtMatrixLayoutSetAttribute(MatrixLayout *layout, int attribute, const void *value,
                                             size_t) {
  if (attribute == kLayoutBatchCount) {
    std::memcpy(&layout->batch, value, sizeof(layout->batch));
  }
  return kSuccess;
}
PLANTED int cublasLtMatmulDescCreate(MatmulDesc **desc, int, int) {
  *desc = new MatmulDesc();
  return kSuccess;
}
PLANTED int cublasLtMatmulDescDestroy(MatmulDesc *desc) {
  delete desc;
  return kSuccess;
}
PLANTED int cublasLtMatmulDescSetAttribute(MatmulDesc *desc, int attribute, const void *value,
                                           size_t) {
  if (attribute == kDescTransA) {
    std::memcpy(&desc->transposeA, value, sizeof(desc->transposeA));
  }
  return kSuccess;
}
PLANTED int cublasLtMatmulPreferenceCreate(MatmulPreference **preference) {
  *preference = &thePreference;
  return kSuccess;
}
PLANTED int cublasLtMatmulPreferenceDestroy(MatmulPreference *) { return kSuccess; }
PLANTED int cublasLtMatmulPreferenceSetAttribute(MatmulPreference *, int, const void *, size_t) {
  return kSuccess;
}
PLANTED int cublasLtMatmulAlgoGetHeuristic(Context *, MatmulDesc *, MatrixLayout *, MatrixLayout *,
                                           MatrixLayout *, MatrixLayout *, MatmulPreference *, int,
                                           HeuristicResult *results, int *count) {
  results[0] = HeuristicResult{};
  *count = 1;
  return kSuccess;
}
PLANTED int cublasLtMatmulAlgoConfigGetAttribute(const MatmulAlgo *, int, void *value, size_t bytes,
                                                 size_t *written) {
  std::memset(value, 0, bytes);
  *written = bytes;
  return kSuccess;
}
PLANTED int cublasLtMatmul(Context *, MatmulDesc *desc, const void *, const void *, MatrixLayout *a,
                           const void *, MatrixLayout *, const void *, const void *, MatrixLayout *,
                           void *, MatrixLayout *d, const MatmulAlgo *, void *, size_t,
                           void *stream) {
  double depth = static_cast<double>(desc->transposeA ? a->rows : a->columns);
  double flops = 2 * static_cast<double>(d->rows) * static_cast<double>(d->columns) * depth *
                 static_cast<double>(d->batch);
  return work(stream,
              planted("matmul-start", 3.4) * 1e-6 +
                  flops / (planted("matmul-teraflops", a->type == kR32F ? 60 : 740) * 1e12));
}

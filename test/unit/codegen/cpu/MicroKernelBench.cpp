// Prints GF/s of each level's product micro-kernels with A and B in cache, as a ratio to a loop of
// nothing but FMAs measured in the same round. Relies on LoadedCode to run generated code.
#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "test/unit/codegen/LoadedCode.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <immintrin.h>

using namespace tenon;
using namespace tenon::codegen::cpu;

using Product = void(const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                     int64_t ldc, int64_t k, const void *next, int64_t step);

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// GF/s of 12 independent chains of 256-bit FMAs (a 512-bit chain gains nothing on Zen 4 and
/// doubles the rate elsewhere, so the peak is the better of the two).
__attribute__((target("avx2,fma"))) static double peak256() {
  __m256 sums[12] = {};
  __m256 x = _mm256_set1_ps(1e-9f);
  double start = seconds();
  constexpr int64_t kSteps = 2'000'000;
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m256 &sum : sums) {
      sum = _mm256_fmadd_ps(x, x, sum);
      asm volatile("" : "+x"(sum));
    }
  }
  return kSteps * 12 * 16 / (seconds() - start) * 1e-9;
}

__attribute__((target("avx512f"))) static double peak512() {
  __m512 sums[12] = {};
  __m512 x = _mm512_set1_ps(1e-9f);
  double start = seconds();
  constexpr int64_t kSteps = 1'000'000;
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m512 &sum : sums) {
      sum = _mm512_fmadd_ps(x, x, sum);
      asm volatile("" : "+v"(sum));
    }
  }
  return kSteps * 12 * 32 / (seconds() - start) * 1e-9;
}

static double productRate(Product *product, int64_t rows, int64_t k) {
  std::vector<float> a(rows * k, 0.5f), b(k * kPanel, 0.25f), c(rows * kPanel);
  int64_t calls = 200'000'000 / (rows * k * kPanel) + 1;
  double start = seconds();
  for (int64_t i = 0; i < calls; ++i) {
    product(a.data(), k, b.data(), kPanel, c.data(), kPanel, k, b.data(), 0);
  }
  return 2.0 * calls * rows * k * kPanel / (seconds() - start) * 1e-9;
}

int main() {
  for (engine::CpuLevel level : machineLevels()) {
    std::vector<std::string> symbols;
    for (int64_t rows = 1; rows <= maxRows(level, ProductType::F32); ++rows) {
      symbols.push_back(productSymbol(rows, false));
    }
    LoadedCode code(level, {}, symbols);
    bool wide = level != engine::CpuLevel::X86_64_V3;
    for (int64_t k : {64, 256, 1024}) {
      for (int64_t rows = 1; rows <= maxRows(level, ProductType::F32); ++rows) {
        Product *product = code.function<Product>(symbols[rows - 1]);
        double best = 0, peak = 0;
        for (int round = 0; round < 5; ++round) {
          peak = std::max({peak, peak256(), wide ? peak512() : 0});
          best = std::max(best, productRate(product, rows, k));
        }
        printf("%-16s k %5ld rows %2ld: %6.1f GF/s, %5.1f %% of peak %6.1f\n",
               std::string(nameOf(level)).c_str(), long(k), long(rows), best, 100 * best / peak,
               peak);
      }
    }
  }
  return 0;
}

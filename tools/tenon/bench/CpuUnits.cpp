// The loops: chains of multiply-adds, enough of them to hide the latency of one. Relies on a caller
// that has asked whether the machine has a unit.

#include "tools/tenon/bench/CpuUnits.h"

#include "engine/Level.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tenon::tool {
namespace {

#if defined(__x86_64__)

/// Chains that hide the latency of a multiply-add: 4 or 5 cycles, two a cycle.
constexpr int64_t kChains = 12;
constexpr int64_t kSteps = int64_t(1) << 17;
/// Of tiles: 4 sums, 16 cycles each.
constexpr int64_t kTileSums = 4, kTileSteps = int64_t(1) << 14;

typedef float Floats8 __attribute__((vector_size(32)));
typedef float Floats16 __attribute__((vector_size(64)));

__attribute__((target("avx2,fma"))) void fma256() {
  Floats8 sums[kChains] = {}, factor = {};
  factor += 0.5f;
  for (int64_t i = 0; i < kSteps; ++i) {
    for (Floats8 &sum : sums) {
      sum = sum * factor + factor;
    }
  }
  use(sums);
}

__attribute__((target("avx512f"))) void fma512() {
  Floats16 sums[kChains] = {}, factor = {};
  factor += 0.5f;
  for (int64_t i = 0; i < kSteps; ++i) {
    for (Floats16 &sum : sums) {
      sum = sum * factor + factor;
    }
  }
  use(sums);
}

__attribute__((target("avx2"))) void pairs256() {
  __m256i sums[kChains] = {}, left = _mm256_set1_epi16(3), right = _mm256_set1_epi16(5);
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m256i &sum : sums) {
      // Else the product, which does not depend on the sum, is taken out of the loop.
      asm volatile("" : "+x"(left));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(left, right));
    }
  }
  use(sums);
}

__attribute__((target("avx2,avxvnni"))) void vnni256() {
  __m256i sums[kChains] = {}, left = _mm256_set1_epi8(3), right = _mm256_set1_epi8(5);
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m256i &sum : sums) {
      sum = _mm256_dpbusd_avx_epi32(sum, left, right);
    }
  }
  use(sums);
}

__attribute__((target("avx512f,avx512vnni"))) void vnni512() {
  __m512i sums[kChains] = {}, left = _mm512_set1_epi8(3), right = _mm512_set1_epi8(5);
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m512i &sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, left, right);
    }
  }
  use(sums);
}

__attribute__((target("avx512f,avx512bw,avx512bf16"))) void bf16Pairs512() {
  __m512 sums[kChains] = {};
  __m512bh factor = {};
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m512 &sum : sums) {
      sum = _mm512_dpbf16_ps(sum, factor, factor);
    }
  }
  use(sums);
}

/// What LDTILECFG reads: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

__attribute__((target("amx-tile"))) void clearTiles() {
  TileConfig config;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

__attribute__((target("amx-tile,amx-int8"))) void amxInt8() {
  clearTiles();
  for (int64_t i = 0; i < kTileSteps; ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
}

__attribute__((target("amx-tile,amx-bf16"))) void amxBf16() {
  clearTiles();
  for (int64_t i = 0; i < kTileSteps; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

/// Of a call whose instructions do `each` operations.
constexpr double ofChains(int64_t each) { return static_cast<double>(kSteps * kChains * each); }
constexpr double ofTiles(int64_t each) {
  return static_cast<double>(kTileSteps * kTileSums * each);
}

namespace x86 = engine::x86;

constexpr auto kUnits = std::to_array<CpuUnit>({
    {"FMA, 256 bits", Numbers::F32, x86::kAvx2, fma256, ofChains(16)},
    {"FMA, 512 bits", Numbers::F32, x86::kAvx512, fma512, ofChains(32)},
    {"pairs of 16 bits (VPMADDWD), 256 bits", Numbers::I8, x86::kAvx2, pairs256, ofChains(32)},
    {"VNNI, 256 bits", Numbers::I8, x86::kAvxVnni, vnni256, ofChains(64)},
    {"VNNI, 512 bits", Numbers::I8, x86::kVnni, vnni512, ofChains(128)},
    {"AMX int8", Numbers::I8, x86::kAmxInt8, amxInt8, ofTiles(2 * 16 * 16 * 64)},
    {"BF16 pairs (VDPBF16PS), 512 bits", Numbers::Bf16, x86::kBf16, bf16Pairs512, ofChains(64)},
    {"AMX bf16", Numbers::Bf16, x86::kAmxBf16, amxBf16, ofTiles(2 * 16 * 16 * 32)},
});

#else
constexpr std::array<CpuUnit, 0> kUnits = {};
#endif

} // namespace

std::span<const CpuUnit> cpuUnits() { return kUnits; }

} // namespace tenon::tool

// A counter-based hash per element, so that any part can be made by any thread.
// Relies on doubles: center + scale * unit is exact there up to the one final rounding.
#include "compiler/frontend/onnx/wire/SeededWeights.h"

#include <bit>
#include <cstring>

namespace tenon::onnx {
namespace {

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;

uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

uint16_t roundToBFloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

template <typename T, typename Round>
void fill(const SeededRecipe &recipe, uint64_t begin, uint64_t count, char *out,
          const Round &round) {
  double scale = recipe.scale;
  double center = recipe.center;
  uint64_t counter = recipe.state + (begin + 1) * kGamma;
  for (uint64_t i = 0; i < count; ++i, counter += kGamma) {
    // 24 bits fit an int32, whose conversion is one instruction on every level.
    int32_t centered = static_cast<int32_t>(mix64(counter) >> 40) - (1 << 23);
    double value = center + scale * (static_cast<double>(centered) * 0x1p-23);
    T element = round(value);
    std::memcpy(out + i * sizeof(T), &element, sizeof(T));
  }
}

} // namespace

uint64_t seededState(std::string_view name, uint64_t seed) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char byte : name) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  }
  return hash ^ mix64(seed);
}

bool canSeed(DataType type) {
  return type == DataType::Float || type == DataType::Double || type == DataType::Float16 ||
         type == DataType::BFloat16;
}

void fillSeeded(const SeededRecipe &recipe, uint64_t begin, uint64_t count, char *out) {
  switch (recipe.type) {
  case DataType::Double:
    return fill<double>(recipe, begin, count, out, [](double x) { return x; });
  case DataType::Float16:
    return fill<_Float16>(recipe, begin, count, out,
                          [](double x) { return static_cast<_Float16>(static_cast<float>(x)); });
  case DataType::BFloat16:
    return fill<uint16_t>(recipe, begin, count, out,
                          [](double x) { return roundToBFloat16(static_cast<float>(x)); });
  default:
    return fill<float>(recipe, begin, count, out, [](double x) { return static_cast<float>(x); });
  }
}

} // namespace tenon::onnx

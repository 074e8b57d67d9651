// The generator of weightless graphs gives the numbers that models/README.md states, and is fast.
// Relies on those tables; models/fill.py is held to the same ones.
#include "compiler/frontend/onnx/wire/SeededWeights.h"

#include <bit>
#include <cstring>
#include <ctime>
#include <gtest/gtest.h>
#include <vector>

namespace tenon::onnx {
namespace {

SeededRecipe recipe(uint64_t seed, DataType type = DataType::Float) {
  return {seededState("encoder.weight", seed), 0.05f, 1.0f, type};
}

uint32_t bitsAt(const SeededRecipe &from, uint64_t index) {
  float value = 0;
  fillSeeded(from, index, 1, reinterpret_cast<char *>(&value));
  return std::bit_cast<uint32_t>(value);
}

TEST(Seeded, GivesTheTabulatedNumbers) {
  const uint64_t indices[] = {0, 1, 2, 3, 4294967296};
  const uint32_t seed0[] = {0x3f7cce10, 0x3f8616b3, 0x3f855795, 0x3f842597, 0x3f7b9582};
  const uint32_t seed1[] = {0x3f78249b, 0x3f85aee7, 0x3f80a2dd, 0x3f84b216, 0x3f7d7580};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(bitsAt(recipe(0), indices[i]), seed0[i]) << indices[i];
    EXPECT_EQ(bitsAt(recipe(1), indices[i]), seed1[i]) << indices[i];
  }
}

TEST(Seeded, NarrowTypesRoundTheSingle) {
  for (uint64_t index = 0; index < 1000; ++index) {
    uint32_t single = bitsAt(recipe(0), index);
    uint16_t brain = 0;
    _Float16 half = 0;
    fillSeeded(recipe(0, DataType::BFloat16), index, 1, reinterpret_cast<char *>(&brain));
    fillSeeded(recipe(0, DataType::Float16), index, 1, reinterpret_cast<char *>(&half));
    EXPECT_EQ(brain, (single + 0x7FFF + (single >> 16 & 1)) >> 16);
    EXPECT_EQ(half, static_cast<_Float16>(std::bit_cast<float>(single)));
  }
}

TEST(Seeded, PartsJoinToTheWhole) {
  std::vector<float> whole(1000);
  std::vector<float> parts(1000);
  fillSeeded(recipe(3), 0, 1000, reinterpret_cast<char *>(whole.data()));
  fillSeeded(recipe(3), 0, 333, reinterpret_cast<char *>(parts.data()));
  fillSeeded(recipe(3), 333, 667, reinterpret_cast<char *>(parts.data() + 333));
  EXPECT_EQ(std::memcmp(whole.data(), parts.data(), 4000), 0);
}

TEST(Seeded, TakesLittleOfTheProcessor) {
  std::vector<char> buffer(64 << 20, 1);
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    std::clock_t start = std::clock(); // of this process alone: others on the machine do not count
    fillSeeded(recipe(0), 0, buffer.size() / 4, buffer.data());
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  double gigabytes = static_cast<double>(buffer.size()) / 1e9 / best;
  std::printf("%.2f GB/s\n", gigabytes);
  EXPECT_GT(gigabytes, 0.25);
}

} // namespace
} // namespace tenon::onnx

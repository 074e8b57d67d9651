// The model of products of warpgroups multiplies, and finds what is left out of their assembly.
#include "test/unit/codegen/emulator/WarpgroupModel.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <functional>

namespace tenon::codegen::cuda {
namespace {

constexpr unsigned kTile = 64 * 64 * 2, kMemory = 256 * 1024;

/// "{$first, ...}" of `count` registers.
std::string registers(unsigned first, unsigned count) {
  std::string list;
  for (unsigned i = 0; i < count; ++i) {
    list += (i ? ", $" : "{$") + std::to_string(first + i);
  }
  return list + "}";
}

std::string repeated(const std::string &text, unsigned count) {
  std::string all;
  for (unsigned i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// A warpgroup whose threads run pieces of assembly that take their sums, then two descriptors.
struct Group {
  explicit Group(unsigned columns) : columns(columns), sums(kWarpgroupSize) {
    memory = static_cast<char *>(std::aligned_alloc(kMemory, kMemory));
    memset(memory, 0xff, kMemory);
    for (std::vector<float> &own : sums) {
      own.assign(columns / 2, 0.5f);
    }
  }
  ~Group() { std::free(memory); }

  static float a(unsigned row, unsigned k) { return float(int(row * 3 + k) % 7 - 3); }
  static float b(unsigned column, unsigned k) { return float(int(column + k * 5) % 11 - 5); }
  /// Row-major tiles of 64 of depth, swizzled: A from 0, B from the first tile behind it.
  void fill(bool isBrain) {
    for (unsigned k = 0; k < 16; ++k) {
      for (unsigned row = 0; row < 64; ++row) {
        put(0, row, k, toHalf(a(row, k), isBrain));
      }
      for (unsigned column = 0; column < columns; ++column) {
        put(kTile, column, k, toHalf(b(column, k), isBrain));
      }
    }
  }
  void put(unsigned start, unsigned row, unsigned column, uint16_t bits) {
    unsigned chunk = column / 8 ^ row % 8;
    memcpy(memory + start + row * 128 + chunk * 16 + column % 8 * 2, &bits, 2);
  }

  std::string product(const std::string &type = "f16") const {
    return "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + type + "." +
           type + " " + registers(0, columns / 2) + ", $" + std::to_string(columns) +
           ", b, p, 1, " + "1, 0, 0;\n";
  }

  /// `text` as a piece that takes the sums in and gives them out.
  std::string run(const std::string &text) {
    unsigned count = columns / 2;
    std::string constraints = repeated("=f,", count);
    for (unsigned i = 0; i < count; ++i) {
      constraints += std::to_string(i) + ",";
    }
    std::string piece = constraints +
                        "l,l,~{memory}|{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.b32 p, " +
                        "1, 0;\nadd.s64 b, $" + std::to_string(columns + 1) + ", 0;\n" + text + "}";
    std::vector<std::vector<char>> arguments(kWarpgroupSize);
    std::vector<std::vector<float>> results(kWarpgroupSize, std::vector<float>(count));
    std::vector<Slot> slots(kWarpgroupSize);
    uint64_t fixed = uint64_t(64) << 32 | uint64_t(1) << 62;
    const uint64_t descriptors[] = {fixed, fixed | kTile / 16};
    for (unsigned lane = 0; lane < kWarpgroupSize; ++lane) {
      arguments[lane].resize(count * 4 + sizeof(descriptors));
      memcpy(arguments[lane].data(), sums[lane].data(), count * 4);
      memcpy(arguments[lane].data() + count * 4, descriptors, sizeof(descriptors));
      slots[lane] = {results[lane].data(), arguments[lane].data()};
    }
    std::string fault =
        model.run(piece, memory, [&](unsigned lane) -> Slot & { return slots[lane]; });
    sums = results;
    return fault;
  }

  /// How many sums are not those of `count` products added to what was there.
  unsigned wrong(unsigned count) const {
    unsigned found = 0;
    for (unsigned lane = 0; lane < kWarpgroupSize; ++lane) {
      for (unsigned i = 0; i < columns / 2; ++i) {
        unsigned row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8;
        unsigned column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        float expected = 0;
        for (unsigned k = 0; k < 16; ++k) {
          expected += a(row, k) * b(column, k);
        }
        found += sums[lane][i] != 0.5f + float(count) * expected;
      }
    }
    return found;
  }

  unsigned columns;
  char *memory;
  std::vector<std::vector<float>> sums; ///< by lane
  WarpgroupModel model;
};

const std::string kFence = "wgmma.fence.sync.aligned;\n";
const std::string kCommit = "wgmma.commit_group.sync.aligned;\n";
const std::string kWait = "wgmma.wait_group.sync.aligned 0;\n";
const std::string kWaitButOne = "wgmma.wait_group.sync.aligned 1;\n";

TEST(WarpgroupModelTest, MultipliesTilesOfAllWidths) {
  for (unsigned columns : {64, 128, 192, 256}) {
    for (const char *type : {"f16", "bf16"}) {
      Group group(columns);
      group.fill(std::string(type) == "bf16");
      std::string product = group.product(type);
      EXPECT_EQ(group.run(kFence + product + product + kCommit + kWait), "");
      EXPECT_EQ(group.wrong(2), 0u) << columns << type;
      EXPECT_EQ(group.model.endFault(), "");
    }
  }
}

TEST(WarpgroupModelTest, SumsAreThereWhenWaitedFor) {
  Group group(128);
  group.fill(false);
  EXPECT_EQ(group.run(kFence + group.product() + kCommit), "");
  EXPECT_EQ(group.wrong(1), 128u * 64);
  EXPECT_EQ(group.run(group.product() + kCommit + kWaitButOne), "") << "one is still under way";
  EXPECT_EQ(group.wrong(2), 128u * 64);
  EXPECT_EQ(group.model.endFault(), "a product that is not waited for");
  EXPECT_EQ(group.run(kWait), "");
  EXPECT_EQ(group.wrong(2), 0u);
  EXPECT_EQ(group.model.endFault(), "");
  // The registers may have been used since.
  EXPECT_EQ(group.run(group.product()), "a product without a fence before it, or of other sums");
}

TEST(WarpgroupModelTest, TilesThatChangeBeforeTheyAreWaitedFor) {
  Group group(64);
  group.fill(false);
  EXPECT_EQ(group.run(kFence + group.product() + kCommit), "");
  group.put(kTile, 63, 15, 0);
  EXPECT_EQ(group.run(kWait), "a tile changed before its product was waited for");
}

TEST(WarpgroupModelTest, FaultsOfTheAssembly) {
  Group group(64);
  EXPECT_EQ(group.run(kFence + "mul.f32 a, b, c;\n"),
            "an instruction that the model does not know: mul.f32");
  std::string other = group.product();
  other.replace(other.find("n64k"), 3, "n72");
  EXPECT_EQ(group.run(kFence + other), "a product without a fence before it, or of other sums");
  std::string transposed = group.product();
  transposed.replace(transposed.find(", b, p"), 3, ", q");
  EXPECT_EQ(group.run(kFence + transposed), "nothing is called q");
  std::string unswizzled = "mov.b64 b, 64;\n" + group.product();
  EXPECT_EQ(group.run(kFence + unswizzled), "a descriptor of another kind of tile");
}

} // namespace
} // namespace tenon::codegen::cuda

// Products on AMX's tiles, bit by bit, on any machine with AVX-512 VNNI: each instruction of a tile
// becomes a call of its definition. Those of rounded rows against the same in vectors, and rows of
// bf16 alone against the same beside others. Relies on LoadedCode to run generated code.
#include "compiler/codegen/cpu/base/Emit.h"
#include "compiler/codegen/cpu/gemm/LowBitKernels.h"
#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "test/unit/codegen/LoadedCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <span>

namespace tenon::codegen::cpu {
namespace {

constexpr engine::CpuLevel kVectors = engine::CpuLevel::Avx512VnniBf16;
constexpr int64_t kColumns = 32;

/// Tiles as `ldtilecfg` shapes them; what is loaded must lie in the operands or on the stack.
struct Tiles {
  struct Tile {
    int rows = 0, bytes = 0;
    std::array<std::array<uint8_t, 64>, 16> data;
  };
  std::array<Tile, 8> tile;
  std::span<const int32_t> a;
  int products = 0;
  bool isInside = true;
} tiles;

void configure(const uint8_t *shape) {
  for (int i = 0; i < 8; ++i) {
    tiles.tile[i] = {
        .rows = shape[48 + i], .bytes = shape[16 + 2 * i] + 256 * shape[17 + 2 * i], .data = {}};
  }
}

void zero(int8_t to) { tiles.tile[to].data = {}; }

void loadTile(int8_t to, const char *from, int64_t stride) {
  constexpr int8_t ofA = 4;
  Tiles::Tile &tile = tiles.tile[to];
  tile.data = {};
  for (int row = 0; row < tile.rows; ++row) {
    const char *first = from + row * stride;
    if (to == ofA) {
      tiles.isInside &=
          first >= reinterpret_cast<const char *>(tiles.a.data()) &&
          first + tile.bytes <= reinterpret_cast<const char *>(tiles.a.data() + tiles.a.size());
    }
    std::memcpy(tile.data[row].data(), first, tile.bytes);
  }
}

void storeTile(int8_t from, char *to, int64_t stride) {
  const Tiles::Tile &tile = tiles.tile[from];
  for (int row = 0; row < tile.rows; ++row) {
    std::memcpy(to + row * stride, tile.data[row].data(), tile.bytes);
  }
}

/// Bytes with sign times such without.
void multiply(int8_t to, int8_t left, int8_t right) {
  Tiles::Tile &sum = tiles.tile[to], &a = tiles.tile[left], &b = tiles.tile[right];
  ++tiles.products;
  EXPECT_EQ(sum.rows, a.rows);
  EXPECT_EQ(sum.bytes, b.bytes);
  EXPECT_EQ(a.bytes, 4 * b.rows);
  for (int row = 0; row < sum.rows; ++row) {
    for (int column = 0; column < sum.bytes; column += 4) {
      int32_t value;
      std::memcpy(&value, &sum.data[row][column], 4);
      for (int i = 0; i < a.bytes; ++i) {
        value += static_cast<int8_t>(a.data[row][i]) * b.data[i / 4][column + i % 4];
      }
      std::memcpy(&sum.data[row][column], &value, 4);
    }
  }
}

/// Pairs of bf16: what the first elements multiply to and what the second ones do are two chains,
/// and their sum is added.
void multiplyPairs(int8_t to, int8_t left, int8_t right) {
  Tiles::Tile &sum = tiles.tile[to], &a = tiles.tile[left], &b = tiles.tile[right];
  ++tiles.products;
  EXPECT_EQ(a.bytes, 4 * b.rows);
  auto number = [](const uint8_t *at) {
    uint32_t bits = uint32_t(at[1]) << 24 | uint32_t(at[0]) << 16;
    return std::bit_cast<float>(bits);
  };
  for (int row = 0; row < sum.rows; ++row) {
    for (int column = 0; column < sum.bytes; column += 4) {
      std::array<float, 2> chains = {};
      for (int i = 0; i < a.bytes; i += 2) {
        float &chain = chains[i / 2 % 2];
        chain = std::fma(number(&a.data[row][i]), number(&b.data[i / 4][column + i % 4]), chain);
      }
      float value;
      std::memcpy(&value, &sum.data[row][column], 4);
      value += chains[0] + chains[1];
      std::memcpy(&sum.data[row][column], &value, 4);
    }
  }
}

void *definitionOf(llvm::StringRef intrinsic) {
  static const std::pair<llvm::StringRef, void *> table[] = {
      {"llvm.x86.ldtilecfg", reinterpret_cast<void *>(configure)},
      {"llvm.x86.tilezero", reinterpret_cast<void *>(zero)},
      {"llvm.x86.tileloadd64", reinterpret_cast<void *>(loadTile)},
      {"llvm.x86.tilestored64", reinterpret_cast<void *>(storeTile)},
      {"llvm.x86.tdpbf16ps", reinterpret_cast<void *>(multiplyPairs)},
      {"llvm.x86.tdpbsud", reinterpret_cast<void *>(multiply)}};
  for (auto [name, function] : table) {
    if (name == intrinsic) {
      return function;
    }
  }
  return nullptr;
}

/// The code for tiles with calls of the definitions, for a machine with vectors.
std::string codeWithoutTiles(const std::string &symbol) {
  using namespace mlir;
  DialectRegistry registry;
  registerEmitDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = buildProductKernels(&context, engine::CpuLevel::Amx, symbol);
  module->walk([&](LLVM::CallIntrinsicOp call) {
    void *definition = definitionOf(call.getIntrin());
    if (!definition) {
      return;
    }
    OpBuilder builder(call);
    Value address = LLVM::ConstantOp::create(
        builder, call.getLoc(),
        builder.getI64IntegerAttr(static_cast<int64_t>(reinterpret_cast<uintptr_t>(definition))));
    SmallVector<Value> operands = {LLVM::IntToPtrOp::create(
        builder, call.getLoc(), LLVM::LLVMPointerType::get(&context), address)};
    llvm::append_range(operands, call.getArgs());
    LLVM::LLVMFunctionType type = LLVM::LLVMFunctionType::get(
        LLVM::LLVMVoidType::get(&context), llvm::to_vector(call.getArgs().getTypes()));
    LLVM::CallOp::create(builder, call.getLoc(), type, operands);
    call.erase();
  });
  if (failed(lowerToLlvmDialect(*module))) {
    return "";
  }
  llvm::Expected<std::string> object = emitObject(*module, kVectors);
  return object ? *object : llvm::toString(object.takeError());
}

struct Operands {
  Operands(const tn::BlockRows &layout, int64_t rows) : layout(layout), rows(rows) {
    std::mt19937 generator(static_cast<unsigned>(layout.depth * 64 + rows));
    std::uniform_real_distribution<float> uniform(-1, 1);
    lda = RoundedRows{layout}.stride();
    for (int64_t i = 0; i < rows * lda; ++i) {
      a.push_back(static_cast<int32_t>(generator()));
    }
    auto put = [](int32_t &word, float value) { std::memcpy(&word, &value, 4); };
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t block = 0; block < layout.blocks(); ++block) {
        int32_t *header = &a[row * lda + block * RoundedRows{layout}.blockWords()];
        put(header[0], uniform(generator));
        layout.hasZeroPoints ? put(header[1], 1000 * uniform(generator))
                             : void(header[1] = static_cast<int32_t>(generator() % 4096));
        // Behind a short block's last word of weights is anything, as what rounds leaves it.
        int64_t bytes = llvm::alignTo(layout.numbersOf(block), layout.elementsOfWord());
        std::memset(header + RoundedRows::kHeader, 0x55, layout.block);
        for (int64_t i = 0; i < bytes; ++i) {
          reinterpret_cast<int8_t *>(header + RoundedRows::kHeader)[i] =
              static_cast<int8_t>(generator() % 255 - 127);
        }
      }
    }
    for (int64_t i = 0; i < layout.rowWords() * kColumns; ++i) {
      b.push_back(static_cast<int32_t>(generator()));
    }
    for (int64_t block = 0; block < layout.blocks(); ++block) {
      for (int64_t i = 0; i < layout.headerWords() * kColumns; ++i) {
        put(b[block * layout.blockWords() * kColumns + i], uniform(generator));
      }
    }
  }

  using Product = void(const int32_t *a, int64_t lda, const int32_t *b, float *c, int64_t ldc,
                       int64_t k, int64_t block, int64_t rows);
  /// C with a canary around it.
  std::vector<float> multiplyBy(Product *product) const {
    constexpr int64_t ldc = kColumns + 3;
    std::vector<float> c((rows + 1) * ldc, 7);
    product(a.data(), lda, b.data(), c.data(), ldc, layout.depth, layout.block, rows);
    return c;
  }

  tn::BlockRows layout;
  int64_t rows, lda;
  std::vector<int32_t> a, b;
};

TEST(RoundedTiles, GiveTheBitsOfVectors) {
  if (!llvm::is_contained(allMachineLevels(), kVectors)) {
    GTEST_SKIP() << "this machine has no " << nameOf(kVectors);
  }
  for (int64_t bits : {4, 8}) {
    for (bool hasZeroPoints : {false, true}) {
      tn::BlockRows layout{.bits = bits, .hasZeroPoints = hasZeroPoints};
      std::string symbol = integerSymbol(layout);
      LoadedCode vectors(kVectors, {}, {symbol}),
          onTiles(kVectors, {codeWithoutTiles(symbol)}, {symbol});
      for (int64_t block : {8, 16, 32, 48, 64, 72, 128, 256, 512, 1024}) {
        for (int64_t depth : {7, 32, 100, 333, 1536, 1999}) {
          for (int64_t rows : {1, 8, 15, 37}) {
            layout.block = block, layout.depth = depth;
            Operands operands(layout, rows);
            tiles = {.tile = {}, .a = operands.a};
            std::vector<float> wanted =
                operands.multiplyBy(vectors.function<Operands::Product>(symbol));
            EXPECT_EQ(tiles.products, 0);
            std::vector<float> found =
                operands.multiplyBy(onTiles.function<Operands::Product>(symbol));
            std::string what = std::to_string(bits) + " bits, blocks of " + std::to_string(block) +
                               ", depth " + std::to_string(depth) + ", rows " +
                               std::to_string(rows);
            EXPECT_EQ(std::memcmp(wanted.data(), found.data(), wanted.size() * 4), 0) << what;
            EXPECT_TRUE(tiles.isInside) << what;
            // 72 numbers are 18 words, which two steps divide.
            EXPECT_EQ(tiles.products > 0, rows >= 8 && block <= 512) << what;
          }
        }
      }
    }
  }
}

TEST(RoundedTiles, TakeOtherBlocksInVectors) {
  if (!llvm::is_contained(allMachineLevels(), kVectors)) {
    GTEST_SKIP() << "this machine has no " << nameOf(kVectors);
  }
  tn::BlockRows layout{.bits = 8, .block = 68, .depth = 200}; // 17 words
  std::string symbol = integerSymbol(layout);
  LoadedCode vectors(kVectors, {}, {symbol}),
      onTiles(kVectors, {codeWithoutTiles(symbol)}, {symbol});
  Operands operands(layout, 9);
  tiles = {.tile = {}, .a = operands.a};
  EXPECT_EQ(operands.multiplyBy(vectors.function<Operands::Product>(symbol)),
            operands.multiplyBy(onTiles.function<Operands::Product>(symbol)));
  EXPECT_EQ(tiles.products, 0);
}

/// Rows of bf16 by a panel; the result.
std::vector<float> multiplyPairsBy(LoadedCode &code, const std::string &symbol, int64_t rows,
                                   int64_t words) {
  using Product = void(const int32_t *a, int64_t lda, const int32_t *b, int64_t ldb, float *c,
                       int64_t ldc, int64_t k, int64_t rows, int64_t accumulate);
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  auto pairs = [&](int64_t count) {
    std::vector<int32_t> result;
    for (int64_t i = 0; i < count; ++i) {
      uint32_t low = std::bit_cast<uint32_t>(uniform(generator)) >> 16;
      uint32_t high = std::bit_cast<uint32_t>(uniform(generator)) & 0xFFFF0000;
      result.push_back(static_cast<int32_t>(high | low));
    }
    return result;
  };
  std::vector<int32_t> b = pairs(words * kColumns), a = pairs(rows * words);
  std::vector<float> c(rows * kColumns);
  tiles = {.tile = {}, .a = a};
  code.function<Product>(symbol)(a.data(), words, b.data(), kColumns, c.data(), kColumns, words,
                                 rows, 0);
  EXPECT_TRUE(tiles.isInside) << rows << " rows of " << words << " words";
  return c;
}

TEST(InvariantTiles, ARowHasTheSameBitsBesideOthers) {
  if (!llvm::is_contained(allMachineLevels(), kVectors)) {
    GTEST_SKIP() << "this machine has no " << nameOf(kVectors);
  }
  std::string usual = anyRowsSymbol(ProductType::BF16);
  std::string invariant = invariantSymbol(ProductType::BF16);
  LoadedCode usualCode(kVectors, {codeWithoutTiles(usual)}, {usual}),
      code(kVectors, {codeWithoutTiles(invariant)}, {invariant});
  for (int64_t words : {1, 16, 33, 288, 401}) {
    std::vector<float> many = multiplyPairsBy(code, invariant, 70, words);
    for (int64_t rows : {1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 64}) {
      std::vector<float> few = multiplyPairsBy(code, invariant, rows, words);
      EXPECT_EQ(std::memcmp(many.data(), few.data(), few.size() * 4), 0)
          << rows << " rows of " << words << " words";
      EXPECT_GT(tiles.products, 0);
    }
  }
  // What the test can see: without the flag few rows are vectors, with another order of sums.
  std::vector<float> many = multiplyPairsBy(usualCode, usual, 70, 288);
  std::vector<float> few = multiplyPairsBy(usualCode, usual, 3, 288);
  EXPECT_NE(std::memcmp(many.data(), few.data(), few.size() * 4), 0);
  EXPECT_EQ(tiles.products, 0);
  for (size_t i = 0; i < few.size(); ++i) {
    EXPECT_NEAR(many[i], few[i], 1e-4);
  }
}

} // namespace
} // namespace tenon::codegen::cpu

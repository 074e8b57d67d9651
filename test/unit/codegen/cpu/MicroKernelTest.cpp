// Every product micro-kernel of every level against the definition, with odd strides and canaries
// around C. Relies on LoadedCode to run generated code.
#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cpu/gemm/PanelPacking.h"
#include "test/unit/codegen/LoadedCode.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace tenon::codegen::cpu {
namespace {

using Product = void(const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                     int64_t ldc, int64_t k, const void *next, int64_t step);

constexpr int64_t kAllColumns[] = {8, 16, kPanel};

std::vector<std::string> productSymbols(engine::CpuLevel level) {
  std::vector<std::string> symbols;
  for (int64_t columns : kAllColumns) {
    for (int64_t rows = 1; rows <= maxRows(level, ProductType::F32); ++rows) {
      symbols.push_back(productSymbol(rows, false, ProductType::F32, columns));
      symbols.push_back(productSymbol(rows, true, ProductType::F32, columns));
    }
  }
  return symbols;
}

std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float &value : values) {
    value = uniform(generator);
  }
  return values;
}

/// Largest difference to the definition; infinite if anything outside C[rows x columns] was
/// written.
double productError(Product *product, int64_t rows, int64_t k, bool accumulate,
                    int64_t columns = kPanel) {
  int64_t lda = k + 3, ldb = kPanel + 5, ldc = kPanel + 1;
  std::vector<float> a = randomFloats(rows * lda, 1);
  std::vector<float> b = randomFloats(k * ldb, 2);
  std::vector<float> before = randomFloats((rows + 1) * ldc, 3);
  std::vector<float> c = before;
  // Nothing is at the address that is fetched ahead.
  product(a.data(), lda, b.data(), ldb, c.data(), ldc, k, nullptr, 64);
  double worst = 0;
  for (size_t index = 0; index < c.size(); ++index) {
    int64_t row = index / ldc, column = index % ldc;
    double expected = before[index];
    if (row < rows && column < columns) {
      expected = accumulate ? before[index] : 0;
      for (int64_t i = 0; i < k; ++i) {
        expected += double(a[row * lda + i]) * b[i * ldb + column];
      }
    } else if (c[index] != before[index]) {
      return INFINITY;
    }
    worst = std::max(worst, std::abs(expected - c[index]));
  }
  return worst;
}

TEST(MicroKernel, EqualsDefinition) {
  for (engine::CpuLevel level : allMachineLevels()) {
    LoadedCode code(level, {}, productSymbols(level));
    for (int64_t rows = 1; rows <= maxRows(level, ProductType::F32); ++rows) {
      for (bool accumulate : {false, true}) {
        for (int64_t columns : kAllColumns) {
          Product *product =
              code.function<Product>(productSymbol(rows, accumulate, ProductType::F32, columns));
          for (int64_t k : {1, 7, 64, 257}) {
            EXPECT_LE(productError(product, rows, k, accumulate, columns), 1e-5)
                << nameOf(level) << " rows " << rows << " k " << k << " accumulate " << accumulate
                << " columns " << columns;
          }
        }
      }
    }
  }
}

TEST(MicroKernel, AnyNumberOfRows) {
  using AnyRows = void(const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                       int64_t ldc, int64_t k, int64_t rows, int64_t accumulate);
  for (engine::CpuLevel level : allMachineLevels()) {
    std::string symbol = anyRowsSymbol(ProductType::F32);
    LoadedCode code(level, {}, {symbol});
    AnyRows *product = code.function<AnyRows>(symbol);
    int64_t k = 19;
    for (int64_t rows : {0, 1, 5, 14, 15, 29, 43, 128}) {
      std::vector<float> a = randomFloats(rows * k, 1), b = randomFloats(k * kPanel, 2);
      std::vector<float> c((rows + 1) * kPanel, 3.0f);
      product(a.data(), k, b.data(), kPanel, c.data(), kPanel, k, rows, 0);
      product(a.data(), k, b.data(), kPanel, c.data(), kPanel, k, rows, 1);
      for (int64_t i = 0; i < (rows + 1) * kPanel; ++i) {
        double expected = i / kPanel < rows ? 0 : 3;
        for (int64_t j = 0; i / kPanel < rows && j < k; ++j) {
          expected += 2.0 * a[i / kPanel * k + j] * b[j * kPanel + i % kPanel];
        }
        ASSERT_NEAR(c[i], expected, 1e-5) << nameOf(level) << " rows " << rows << " at " << i;
      }
    }
  }
}

/// The first element that is not the definition's, or -1. Every other element is an extreme: pairs
/// of such do not fit 16 bits.
template <typename AnyRows>
int64_t wrongByteProduct(AnyRows *product, int64_t rows, int64_t words, bool accumulate) {
  std::mt19937 generator(static_cast<unsigned>(rows * words));
  auto draw = [&](int least, int most) {
    int extreme = generator() % 2 == 0 ? least : most;
    return generator() % 2 == 0 ? extreme
                                : least + static_cast<int>(generator() % (most - least + 1));
  };
  std::vector<uint8_t> a(rows * words * 4);
  std::vector<int8_t> b(words * kPanel * 4);
  for (uint8_t &value : a) {
    value = static_cast<uint8_t>(draw(0, 255));
  }
  for (int8_t &value : b) {
    value = static_cast<int8_t>(draw(-128, 127));
  }
  std::vector<int32_t> c(rows * kPanel, 7);
  product(a.data(), words, b.data(), kPanel, c.data(), kPanel, words, rows, accumulate);
  for (int64_t i = 0; i < rows * kPanel; ++i) {
    int64_t row = i / kPanel, column = i % kPanel;
    int32_t expected = accumulate ? 7 : 0;
    for (int64_t j = 0; j < words * 4; ++j) {
      expected += a[row * words * 4 + j] * b[(j / 4 * kPanel + column) * 4 + j % 4];
    }
    if (c[i] != expected) {
      return i;
    }
  }
  return -1;
}

TEST(MicroKernel, ByteProductsAreExact) {
  using AnyRows = void(const uint8_t *a, int64_t lda, const int8_t *b, int64_t ldb, int32_t *c,
                       int64_t ldc, int64_t k, int64_t rows, int64_t accumulate);
  for (engine::CpuLevel level : allMachineLevels()) {
    std::string symbol = anyRowsSymbol(ProductType::U8S8);
    LoadedCode code(level, {}, {symbol});
    AnyRows *product = code.function<AnyRows>(symbol);
    for (int64_t rows : {1, 2, 3, 4, 5, 10, 11, 14, 16, 17, 29, 32, 33, 70}) {
      for (int64_t words : {1, 3, 16, 40, 200, 400}) {
        for (bool accumulate : {false, true}) {
          EXPECT_EQ(wrongByteProduct(product, rows, words, accumulate), -1)
              << nameOf(level) << " rows " << rows << " words " << words << " accumulate "
              << accumulate;
        }
      }
    }
  }
}

/// Upper half of a float's bits.
uint16_t toBf16(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }
double fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

TEST(MicroKernel, ProductsOfBf16) {
  using AnyRows = void(const uint16_t *a, int64_t lda, const uint16_t *b, int64_t ldb, float *c,
                       int64_t ldc, int64_t k, int64_t rows, int64_t accumulate);
  for (engine::CpuLevel level : allMachineLevels()) {
    std::string symbol = anyRowsSymbol(ProductType::BF16);
    LoadedCode code(level, {}, {symbol});
    AnyRows *product = code.function<AnyRows>(symbol);
    for (int64_t rows : {1, 3, 4, 5, 11, 16, 17, 32, 50}) {
      for (int64_t words : {0, 1, 7, 16, 33, 200}) {
        std::vector<uint16_t> a, b;
        for (float value : randomFloats(rows * words * 2, 1)) {
          a.push_back(toBf16(value));
        }
        for (float value : randomFloats(words * kPanel * 2, 2)) {
          b.push_back(toBf16(value));
        }
        std::vector<float> c((rows + 1) * kPanel, 3.0f);
        product(a.data(), words, b.data(), kPanel, c.data(), kPanel, words, rows, 0);
        product(a.data(), words, b.data(), kPanel, c.data(), kPanel, words, rows, 1);
        for (int64_t i = 0; i < (rows + 1) * kPanel; ++i) {
          double expected = i / kPanel < rows ? 0 : 3;
          for (int64_t j = 0; i / kPanel < rows && j < words * 2; ++j) {
            expected += 2 * fromBf16(a[i / kPanel * words * 2 + j]) *
                        fromBf16(b[(j / 2 * kPanel + i % kPanel) * 2 + j % 2]);
          }
          ASSERT_NEAR(c[i], expected, 1e-4)
              << nameOf(level) << " rows " << rows << " words " << words << " at " << i;
        }
      }
    }
  }
}

/// Whether an object has an instruction of that opcode of map 0F38 behind a prefix of four bytes,
/// EVEX of 512 bits, or of three, VEX.
bool hasInstruction(engine::CpuLevel level, ProductType type, bool isEvex, uint8_t opcode) {
  llvm::Expected<std::string> object = supportObject(level, anyRowsSymbol(type));
  if (!object) {
    ADD_FAILURE() << llvm::toString(object.takeError());
    return false;
  }
  for (size_t i = 0; i + 4 < object->size(); ++i) {
    auto byte = [&](size_t at) { return static_cast<uint8_t>((*object)[i + at]); };
    bool isLong = byte(0) == 0x62 && (byte(1) & 0x0f) == 0x02 && (byte(3) & 0x60) == 0x40 &&
                  byte(4) == opcode;
    bool isShort = byte(0) == 0xc4 && (byte(1) & 0x1f) == 0x02 && byte(3) == opcode;
    if (isEvex ? isLong : isShort) {
      return true;
    }
  }
  return false;
}

TEST(MicroKernel, LevelsMultiplyByTheirInstructions) {
  constexpr uint8_t vpdpbusd = 0x50, vdpbf16ps = 0x52, tdpbusd = 0x5e, tdpbf16ps = 0x5c;
  using enum engine::CpuLevel;
  using enum ProductType;
  EXPECT_TRUE(hasInstruction(Avx512Vnni, U8S8, true, vpdpbusd));
  EXPECT_TRUE(hasInstruction(Amx, U8S8, true, vpdpbusd)); // of few rows
  EXPECT_FALSE(hasInstruction(Avx512, U8S8, true, vpdpbusd));
  EXPECT_TRUE(hasInstruction(AvxVnni, U8S8, false, vpdpbusd));
  EXPECT_TRUE(hasInstruction(Avx512VnniBf16, BF16, true, vdpbf16ps));
  EXPECT_FALSE(hasInstruction(Avx512Vnni, BF16, true, vdpbf16ps));
  EXPECT_TRUE(hasInstruction(Amx, U8S8, false, tdpbusd));
  EXPECT_TRUE(hasInstruction(Amx, BF16, false, tdpbf16ps));
  EXPECT_FALSE(hasInstruction(Avx512Fp16, BF16, false, tdpbf16ps));
}

template <typename Element> void expectRowsPacked(engine::CpuLevel level) {
  using Pack = void(const Element *from, int64_t stride, Element *to, int64_t depth);
  constexpr int64_t perWord = 4 / sizeof(Element), stride = kPanel + 3;
  LoadedCode code(level, {}, {packRowsSymbol(perWord)});
  Pack *pack = code.function<Pack>(packRowsSymbol(perWord));
  for (int64_t depth : {0, 1, 2, 3, 4, 5, 8, 31}) {
    int64_t words = (depth + perWord - 1) / perWord;
    std::vector<Element> from(depth * stride), to(words * kPanel * perWord + 1, 7), expected = to;
    for (size_t i = 0; i < from.size(); ++i) {
      from[i] = static_cast<Element>(0x9e3779b9u * (i + 1) >> 13);
    }
    pack(from.data(), stride, to.data(), depth);
    for (int64_t i = 0; i < words * kPanel * perWord; ++i) {
      int64_t row = i / (kPanel * perWord) * perWord + i % perWord, column = i / perWord % kPanel;
      expected[i] = row < depth ? from[row * stride + column] : Element(0);
    }
    EXPECT_EQ(to, expected) << nameOf(level) << " of " << sizeof(Element) << " bytes, depth "
                            << depth;
  }
}

TEST(MicroKernel, WeavesRowsIntoWords) {
  for (engine::CpuLevel level : allMachineLevels()) {
    expectRowsPacked<uint8_t>(level);
    expectRowsPacked<uint16_t>(level);
  }
}

TEST(MicroKernel, PacksTransposedPanels) {
  using Pack = void(const float *from, int64_t stride, float *to, int64_t k, int64_t count);
  for (engine::CpuLevel level : allMachineLevels()) {
    LoadedCode code(level, {}, {kPackTransposed.str()});
    Pack *pack = code.function<Pack>(kPackTransposed.str());
    for (int64_t k : {1, 7, 16, 64, 77}) {
      for (int64_t count : {1, 5, 16, 17, 32}) {
        int64_t stride = k + 3;
        // No row but the last may be read past its k elements.
        std::vector<float> from = randomFloats((count - 1) * stride + k, 1);
        std::vector<float> to(k * kPanel + 1, 7.0f), expected(k * kPanel + 1, 7.0f);
        pack(from.data(), stride, to.data(), k, count);
        for (int64_t i = 0; i < k * kPanel; ++i) {
          int64_t j = i % kPanel;
          expected[i] = j < count ? from[j * stride + i / kPanel] : 0;
        }
        EXPECT_EQ(to, expected) << nameOf(level) << " k " << k << " count " << count;
      }
    }
  }
}

TEST(MicroKernel, TestSeesWrongRowsAndStraysOutsideC) {
  engine::CpuLevel level = machineLevels().front();
  LoadedCode code(level, {}, productSymbols(level));
  Product *product = code.function<Product>(productSymbol(3, false));
  EXPECT_GT(productError(product, 2, 7, false), 1e-2);
  EXPECT_GT(productError(product, 4, 7, false), 1e-2);
  EXPECT_GT(productError(product, 3, 7, true), 1e-2);
}

} // namespace
} // namespace tenon::codegen::cpu

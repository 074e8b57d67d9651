// The product micro-kernels of other architectures' levels under QEMU: every type, number of rows
// and rest of the depth, narrow ones too, on each length of registers. Numbers are such that f32
// holds all sums. Relies on Emulation.h.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cpu/base/Emit.h"
#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/foreign/Emulation.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"

#include <bit>
#include <gtest/gtest.h>
#include <random>

namespace tenon::codegen::cpu {
namespace {

/// A kernel over products, of which each has four sizes: words of the depth, rows, whether it adds,
/// and where in C it begins.
constexpr llvm::StringLiteral kCaller = R"(
declare void @PRODUCT(ptr, i64, ptr, i64, ptr, i64, i64, i64, i64)
define i32 @products(ptr %context, ptr %buffers, ptr %sizes, i64 %begin, i64 %end) {
entry:
  %a = load ptr, ptr %buffers
  %bAt = getelementptr ptr, ptr %buffers, i64 1
  %b = load ptr, ptr %bAt
  %cAt = getelementptr ptr, ptr %buffers, i64 2
  %c = load ptr, ptr %cAt
  br label %next
next:
  %i = phi i64 [ %begin, %entry ], [ %more, %next ]
  %first = mul i64 %i, 4
  %wordsAt = getelementptr i64, ptr %sizes, i64 %first
  %words = load i64, ptr %wordsAt
  %rowsAt = getelementptr i64, ptr %wordsAt, i64 1
  %rows = load i64, ptr %rowsAt
  %addsAt = getelementptr i64, ptr %wordsAt, i64 2
  %adds = load i64, ptr %addsAt
  %placeAt = getelementptr i64, ptr %wordsAt, i64 3
  %place = load i64, ptr %placeAt
  %to = getelementptr i32, ptr %c, i64 %place
  call void @PRODUCT(ptr %a, i64 STRIDE, ptr %b, i64 32, ptr %to, i64 35, i64 %words, i64 %rows, i64 %adds)
  %more = add i64 %i, 1
  %goes = icmp slt i64 %more, %end
  br i1 %goes, label %next, label %done
done:
  ret i32 0
}
)";

constexpr int64_t kMostWords = 130, kStrideOfA = kMostWords + 3, kMostRows = 33, kStrideOfC = 35;
constexpr int64_t kBefore = 7;

std::string callerOf(engine::CpuLevel level, const std::string &symbol) {
  std::string text = kCaller.str();
  for (auto [word, with] : {std::pair<std::string, std::string>("PRODUCT", symbol),
                            {"STRIDE", std::to_string(kStrideOfA)}}) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
      text.replace(at, word.size(), with);
    }
  }
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, diagnostic, context);
  EXPECT_TRUE(module) << diagnostic.getMessage().str();
  return module ? llvm::cantFail(emitObject(*module, level)) : "";
}

/// Elements of A and B as integers, and their bytes as kernels take them.
struct Operand {
  std::vector<int32_t> elements;
  std::vector<char> bytes;
};

Operand makeOperand(ProductType type, bool isOfA, int64_t words, unsigned seed) {
  std::mt19937 random(seed);
  Operand made;
  for (int64_t i = 0; i < words * elementsOfWord(type); ++i) {
    bool isExtreme = random() % 2 == 0, isHigh = random() % 2 == 0;
    int32_t least = -8, most = 8;
    if (type == ProductType::U8S8) {
      least = isOfA ? 0 : -128;
      most = isOfA ? 255 : 127;
    }
    int32_t value = isExtreme ? (isHigh ? most : least)
                              : least + static_cast<int32_t>(random() % (most - least + 1));
    made.elements.push_back(value);
    uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    uint32_t stored = type == ProductType::F32    ? bits
                      : type == ProductType::BF16 ? bits >> 16
                                                  : static_cast<uint32_t>(value);
    for (int64_t byte = 0; byte < 4 / elementsOfWord(type); ++byte) {
      made.bytes.push_back(static_cast<char>(stored >> (8 * byte)));
    }
  }
  return made;
}

/// The first product and element that is not the definition's, or an empty text.
std::string firstWrong(engine::CpuLevel level, ProductType type, int64_t columns,
                       const std::string &code) {
  std::vector<int64_t> sizes;
  int64_t area = (kMostRows + 1) * kStrideOfC, count = 0;
  for (int64_t words : {0, 1, 2, 3, 4, 5, 7, 130}) {
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 16, 17, 33}) {
      if (words > 7 && rows % 8 > 1) {
        continue; // of a long depth, which takes longer to compute here, fewer
      }
      for (int64_t adds : {0, 1}) {
        sizes.insert(sizes.end(), {words, rows, adds, count++ * area});
      }
    }
  }
  Operand a = makeOperand(type, true, kMostRows * kStrideOfA, 1);
  Operand b = makeOperand(type, false, kMostWords * kPanel, 2);
  bool isFloat = sumsFloats(type);
  std::vector<int32_t> c(count * area,
                         isFloat ? std::bit_cast<int32_t>(float(kBefore)) : int32_t(kBefore));
  auto bufferOf = [](auto &values, bool isWritable) {
    uint64_t bytes = values.size() * sizeof(values[0]);
    return EmulatedBuffer{reinterpret_cast<char *>(values.data()), bytes, isWritable, bytes};
  };
  EmulatedBuffer buffers[] = {bufferOf(a.bytes, false), bufferOf(b.bytes, false),
                              bufferOf(c, true)};
  Result<int32_t> status = runEmulated(level, {code, "products", buffers, sizes, 64, count, 1});
  if (!status.isOk()) {
    return "the emulator failed";
  }
  int64_t perWord = elementsOfWord(type);
  for (int64_t number = 0; number < count; ++number) {
    int64_t words = sizes[4 * number], rows = sizes[4 * number + 1], adds = sizes[4 * number + 2];
    for (int64_t i = 0; i < area; ++i) {
      int64_t row = i / kStrideOfC, column = i % kStrideOfC;
      if (row < rows && column >= columns && column < kPanel) {
        continue; // a narrow kernel may write them
      }
      int64_t wanted = kBefore;
      if (row < rows && column < kPanel) {
        wanted = adds ? kBefore : 0;
        for (int64_t k = 0; k < words * perWord; ++k) {
          int64_t ofB = (k / perWord * kPanel + column) * perWord + k % perWord;
          wanted += int64_t(a.elements[row * kStrideOfA * perWord + k]) * b.elements[ofB];
        }
      }
      int32_t got = c[number * area + i];
      if (isFloat ? std::bit_cast<float>(got) != float(wanted) : got != wanted) {
        return "words " + std::to_string(words) + " rows " + std::to_string(rows) + " adds " +
               std::to_string(adds) + " row " + std::to_string(row) + " column " +
               std::to_string(column);
      }
    }
  }
  return "";
}

TEST(EmulatedProducts, EqualTheDefinition) {
  ASSERT_FALSE(emulatedLevels().empty());
  for (engine::CpuLevel level : emulatedLevels()) {
    for (ProductType type : {ProductType::F32, ProductType::U8S8, ProductType::BF16}) {
      for (int64_t columns : {kNarrowColumns[0], kNarrowColumns[1], kPanel}) {
        if (columns < kPanel && type == ProductType::BF16) {
          continue; // there is none
        }
        std::string code =
            linkedCode(level, {callerOf(level, anyRowsSymbol(type, columns))}, {"products"});
        for (size_t length = 0; length < emulatedLengths(level); ++length) {
          EXPECT_EQ("", firstWrong(level, type, columns, code))
              << nameOf(level) << ", " << anyRowsSymbol(type, columns) << ", length " << length;
        }
      }
    }
  }
}

} // namespace
} // namespace tenon::codegen::cpu

// Dims and diagnostics in the words of the model.
#include "compiler/graph/DimText.h"

#include "mlir/AsmParser/AsmParser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace tenon::tn;

namespace {

const Symbol kSymbols[] = {{"batch", 1, 8}, {"seq", 1, 512}};

TEST(DimText, NamesSymbolsAndWritesDivisionsAsPeopleDo) {
  MLIRContext context;
  struct Case {
    const char *expression;
    const char *text;
  };
  for (Case c :
       {Case{"s0", "batch"}, Case{"7", "7"}, Case{"s0 * 4 + 1", "batch * 4 + 1"},
        Case{"(s1 + 1) floordiv 2", "floor((seq + 1) / 2)"}, Case{"s1 ceildiv 4", "ceil(seq / 4)"},
        Case{"(s0 + s1) * 3", "(batch + seq) * 3"}, Case{"s0 - 5", "batch - 5"},
        Case{"s0 - s1", "batch - seq"}, Case{"s1 mod 4", "seq mod 4"}, Case{"s2", "s2"}}) {
    std::string map = std::string("affine_map<()[s0, s1, s2] -> (") + c.expression + ")>";
    AffineMap parsed = llvm::cast<AffineMapAttr>(parseAttribute(map, &context)).getValue();
    EXPECT_EQ(c.text, dimText(parsed.getResult(0), kSymbols));
    if (c.text != llvm::StringRef("s2")) { // which nobody declared
      EXPECT_EQ(simplify(parsed.getResult(0)), parseDim(c.text, kSymbols, &context)) << c.text;
    }
  }
  EXPECT_EQ("?", dimText(AffineExpr(), kSymbols));
}

TEST(DimText, ReadsWhatIsNoDimAsNone) {
  MLIRContext context;
  std::string deep = std::string(1000, '(') + "1" + std::string(1000, ')');
  for (std::string text :
       {"", "bitch", "batch seq", "batch +", "1 / 2", "floor(batch / 0)", "floor(batch / seq)",
        "batch mod 0", "(batch", "99999999999999999999", "9223372036854775807 + 1", deep.c_str()}) {
    EXPECT_FALSE(parseDim(text, kSymbols, &context)) << text;
  }
  EXPECT_EQ(getAffineConstantExpr(-3, &context), parseDim(" 2 * (1 - 3) + 1", kSymbols, &context));
}

TEST(DimText, NamesSymbolsOfDiagnostics) {
  EXPECT_EQ("[batch, floor(seq / 2)] and [s2] differ at as0, s0x and 5s1",
            nameSymbols("[s0, floor(s1 / 2)] and [s2] differ at as0, s0x and 5s1", kSymbols));
}

} // namespace

// Which regions become calls of cuDNN, by size and architecture, and that launches stand behind
// them as their spares.

#include "compiler/codegen/cuda/CudaCodegen.h"
#include "test/unit/codegen/SelectedText.h"
#include "gtest/gtest.h"

namespace tenon::codegen::cuda {
namespace {

/// "call", "launch" and "spare", in the order of a region's steps.
std::vector<std::string> stepsOf(const std::string &region, const std::string &strategy,
                                 const std::string &arch) {
  std::string text =
      "module attributes {tn.symbols = [#tn.symbol<\"s0\", 1, 64>]} {\nfunc.func @kernel" + region +
      "\n}\n}\n";
  text.replace(text.find("ATTRIBUTES"), 10, "attributes {tn.strategy = \"" + strategy + "\"}");
  const target::Target &parsed = target::targetOf(arch);
  llvm::Expected<CompiledRegion> compiled =
      compileRegion(selectedForCuda(text, parsed), "k", parsed);
  if (!compiled) {
    return {llvm::toString(compiled.takeError())};
  }
  std::vector<std::string> steps;
  for (const RegionStep &step : compiled->code.steps) {
    steps.push_back(!step.call.empty() ? "call" : step.isSpare ? "spare" : "launch");
  }
  return steps;
}

TEST(LibrarySteps, LargeAttentionIsACallWithASpare) {
  auto stepsFor = [](int batch, int length, bool hasMask, const std::string &arch) {
    std::string b = std::to_string(batch), s = std::to_string(length);
    std::string x = "tensor<" + b + "x" + s + "x16x64xf16>",
                m = "tensor<" + b + "x1x1x" + s + "xf16>";
    return stepsOf("(%q: " + x + ", %k: " + x + ", %v: " + x + (hasMask ? ", %m: " + m : "") +
                       ") -> " + x + " ATTRIBUTES {\n%y = tn.attention %q, %k, %v" +
                       (hasMask ? " mask %m" : "") +
                       " {causal = false, headsInner = array<i1: true, true, true, true>, scale = "
                       "0.125 : f64} : (" +
                       x + ", " + x + ", " + x + (hasMask ? ", " + m : "") + ") -> " + x +
                       "\nreturn %y : " + x,
                   "attention", arch);
  };
  using Steps = std::vector<std::string>;
  EXPECT_EQ((Steps{"call", "spare"}), stepsFor(64, 384, true, "sm_90"));
  EXPECT_EQ(Steps{"launch"}, stepsFor(1, 384, true, "sm_90")) << "too small";
  EXPECT_EQ(Steps{"launch"}, stepsFor(64, 384, true, "sm_90a")) << "warpgroups are faster";
  EXPECT_EQ((Steps{"call", "spare"}), stepsFor(4, 4096, false, "sm_90a"));
}

TEST(LibrarySteps, AttentionOfVaryingSizeIsNoCall) {
  std::string x = "tensor<?x384x16x64xf16, #tn.shape<()[s0] -> (s0, 384, 16, 64)>>";
  EXPECT_EQ(std::vector<std::string>{"launch"},
            stepsOf("(%x: " + x + ") -> " + x +
                        " ATTRIBUTES {\n%y = tn.attention %x, %x, %x {causal = false, headsInner = "
                        "array<i1: true, true, true, true>, scale = 0.125 : f64} : (" +
                        x + ", " + x + ", " + x + ") -> " + x + "\nreturn %y : " + x,
                    "attention", "sm_90"));
}

} // namespace
} // namespace tenon::codegen::cuda

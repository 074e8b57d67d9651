// Which regions become calls of cuDNN, by size and architecture, and that launches stand behind
// them as their fallbacks.

#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/graph/Tn.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/codegen/SelectedText.h"
#include "gtest/gtest.h"

#include <cstring>

namespace tenon::codegen::cuda {
namespace {

/// "call", "launch" and "fallback", in the order of a region's steps.
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
    steps.push_back(!step.call.empty() ? "call" : step.isFallback ? "fallback" : "launch");
  }
  return steps;
}

TEST(LibrarySteps, LargeAttentionIsACallWithAFallback) {
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
  EXPECT_EQ((Steps{"call", "fallback"}), stepsFor(64, 384, true, "sm_90"));
  EXPECT_EQ(Steps{"launch"}, stepsFor(1, 384, true, "sm_90")) << "too small";
  EXPECT_EQ(Steps{"launch"}, stepsFor(64, 384, true, "sm_90a")) << "warpgroups are faster";
  EXPECT_EQ((Steps{"call", "fallback"}), stepsFor(4, 4096, false, "sm_90a"));
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

/// What no call computes is a launch of the same kernel.
TEST(LibrarySteps, ConvolutionIsACallWithAFallback) {
  auto stepsFor = [](const std::string &activation) {
    std::string x = "tensor<32x56x56x256xf16>", w = "tensor<256x3x3x256xf16>",
                t = "tensor<256x256x3x3xf16>";
    return stepsOf(
        "(%x: " + x + ", %w: " + w + ") -> " + x +
            " ATTRIBUTES {\n%t = tn.transpose %w [0, 3, 1, 2] : (" + w + ") -> " + t +
            "\n%c = tn.conv %x, %t {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, "
            "1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} "
            ": (" +
            x + ", " + t + ") -> " + x + "\n%y = tn." + activation + " %c : " + x +
            "\nreturn %y : " + x,
        "contraction", "sm_90");
  };
  using Steps = std::vector<std::string>;
  EXPECT_EQ((Steps{"call", "fallback"}), stepsFor("relu"));
  EXPECT_EQ(Steps{"launch"}, stepsFor("silu"));
}

/// What tuning chooses among, besides our own kernels.
TEST(LibrarySteps, AKernelMayBeALaterProposal) {
  std::string x = "tensor<64x1024xf16>", w = "tensor<1024x1024xf16>";
  auto textWith = [&](const std::string &kernel) {
    return "module {\nfunc.func @kernel(%x: " + x + ", %w: " + w + ") -> " + x +
           " attributes {tn.strategy = \"contraction\"" + kernel +
           "} {\n%y = tn.matmul %x, %w : (" + x + ", " + w + ") -> " + x + "\nreturn %y : " + x +
           "\n}\n}\n";
  };
  llvm::Expected<std::vector<dispatch::KernelCandidate>> all =
      kernelCandidates(textWith(""), target::targetOf("sm_90a"));
  ASSERT_TRUE(static_cast<bool>(all));
  std::vector<std::string> calls;
  for (const dispatch::KernelCandidate &candidate : *all) {
    if (candidate.kernel.family == "cublaslt") {
      calls.push_back(candidate.kernel.text());
    }
  }
  EXPECT_EQ((std::vector<std::string>{"cublaslt", "cublaslt{proposal=2}", "cublaslt{proposal=3}",
                                      "cublaslt{proposal=4}"}),
            calls);
  llvm::Expected<dispatch::KernelChoice> third =
      dispatch::KernelChoice::parse("cublaslt{proposal=3}");
  ASSERT_TRUE(static_cast<bool>(third));
  llvm::Expected<dispatch::KernelSelection> selected =
      selectKernel(textWith(""), target::targetOf("sm_90a"), {&*third, {}});
  ASSERT_TRUE(static_cast<bool>(selected)) << llvm::toString(selected.takeError());
  EXPECT_EQ("cublaslt{proposal=3}", selected->chosen.text());
  llvm::Expected<CompiledRegion> region =
      compileRegion(textWith(", tn.kernel = {cublaslt = {proposal = 3 : i64}}"), "k_region",
                    target::targetOf("sm_90a"));
  ASSERT_TRUE(static_cast<bool>(region)) << llvm::toString(region.takeError());
  engine::MatmulCall call;
  ASSERT_EQ(sizeof(call), region->code.steps.front().call.size());
  std::memcpy(&call, region->code.steps.front().call.data(), sizeof(call));
  EXPECT_EQ(0, call.hint.version);
  EXPECT_EQ(2, call.hint.algorithm) << "counted from 0";
}

/// Of a product of `rows` x 1,024 x `columns` as a library does it.
engine::MatmulHint hintOf(const std::string &rows, const std::string &columns,
                          const std::string &type, bool hasResidual) {
  bool isDynamic = rows == "?";
  auto tensor = [&](const std::string &wide) {
    return "tensor<" + rows + "x" + wide + "x" + type +
           (isDynamic ? ", #tn.shape<()[s0] -> (s0, " + wide + ")>>" : ">");
  };
  std::string a = tensor("1024"), y = tensor(columns),
              w = "tensor<1024x" + columns + "x" + type + ">";
  std::string text =
      "module attributes {tn.symbols = [#tn.symbol<\"s0\", 1, 65536>]} {\n"
      "func.func @kernel(%a: " +
      a + ", %w: " + w + ", %r: " + y + ") -> " + y +
      " attributes {tn.strategy = \"contraction\"} {\n%p = tn.matmul %a, %w : (" + a + ", " + w +
      ") -> " + y + "\n" +
      (hasResidual ? "%s = tn.add %p, %r : (" + y + ", " + y + ") -> " + y + "\nreturn %s : " + y
                   : "return %p : " + y) +
      "\n}\n}\n";
  mlir::MLIRContext context;
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  mlir::func::FuncOp kernel = *module->getOps<mlir::func::FuncOp>().begin();
  std::optional<RegionStep> step =
      matmulStep(kernel, *kernel.getOps<tn::MatmulOp>().begin(), false);
  EXPECT_TRUE(step && step->call.size() == sizeof(engine::MatmulCall)) << text;
  engine::MatmulCall call;
  if (step) {
    std::memcpy(&call, step->call.data(), sizeof(call));
  }
  return call.hint;
}

TEST(LibrarySteps, WideHalfProductsHaveAHint) {
  engine::MatmulHint wide = hintOf("4096", "2048", "f16", false);
  EXPECT_EQ(1301, wide.version);
  EXPECT_EQ(66, wide.algorithm);
  EXPECT_EQ(20, wide.tile);
  EXPECT_EQ(4096, wide.leastRows);
  EXPECT_EQ(2731, hintOf("?", "3072", "bf16", false).leastRows)
      << "decided when the rows are known";
  EXPECT_EQ(0, hintOf("2048", "2048", "f16", false).version) << "too few rows";
  EXPECT_EQ(0, hintOf("8192", "1024", "f16", false).version) << "too narrow";
  EXPECT_EQ(0, hintOf("4096", "2048", "f32", false).version);
  EXPECT_EQ(0, hintOf("4096", "2048", "f16", true).version) << "with a residual";
}

} // namespace
} // namespace tenon::codegen::cuda

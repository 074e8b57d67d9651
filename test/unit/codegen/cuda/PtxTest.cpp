// What holds for the PTX of any region: it assembles for each architecture without spills or local
// memory, calls nothing that it does not contain, and is the same each time.
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/codegen/cuda/base/EmitPtx.h"
#include "test/unit/codegen/SelectedText.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"

namespace tenon::codegen::cuda {
namespace {

struct RegionRow {
  const char *name;
  const char *strategy;
  const char *signature;
  const char *body;
  const char *symbols = "";
};

const RegionRow kRegions[] = {
    {"chain", "elementwise",
     "(%x: tensor<256x1024xf16>, %b: tensor<1024xf16>) -> tensor<256x1024xf16>",
     R"(%0 = tn.add %x, %b : (tensor<256x1024xf16>, tensor<1024xf16>) -> tensor<256x1024xf16>
        %1 = tn.gelu %0 : tensor<256x1024xf16>
        return %1 : tensor<256x1024xf16>)"},
    {"dynamic_rows", "elementwise",
     "(%x: tensor<?x96xbf16, #tn.shape<()[s0] -> (s0, 96)>>) -> tensor<?x96xbf16, #tn.shape<()[s0] "
     "-> (s0, 96)>>",
     R"(%0 = tn.silu %x : tensor<?x96xbf16, #tn.shape<()[s0] -> (s0, 96)>>
        return %0 : tensor<?x96xbf16, #tn.shape<()[s0] -> (s0, 96)>>)",
     R"(#tn.symbol<"s0", 1, 4096>)"},
    {"doubles", "elementwise", "(%x: tensor<1024xf64>) -> tensor<1024xf64>",
     R"(%0 = tn.sin %x : tensor<1024xf64>
        return %0 : tensor<1024xf64>)"},
    {"transpose", "elementwise", "(%x: tensor<32x48x64xf32>) -> tensor<64x48x32xf32>",
     R"(%0 = tn.transpose %x [2, 1, 0] : (tensor<32x48x64xf32>) -> tensor<64x48x32xf32>
        return %0 : tensor<64x48x32xf32>)"},
    {"matmul", "contraction", "(%a: tensor<24x40xi32>, %b: tensor<40x56xi32>) -> tensor<24x56xi32>",
     R"(%0 = tn.matmul %a, %b : (tensor<24x40xi32>, tensor<40x56xi32>) -> tensor<24x56xi32>
        return %0 : tensor<24x56xi32>)"},
    {"softmax", "rows", "(%x: tensor<8x3000xf32>) -> tensor<8x3000xf32>",
     R"(%0 = tn.softmax %x {axis = 1 : i64} : tensor<8x3000xf32>
        return %0 : tensor<8x3000xf32>)"},
    {"top_k", "single", "(%x: tensor<6x50xf32>) -> (tensor<6x5xf32>, tensor<6x5xi64>)",
     R"(%0, %1 = tn.top_k %x {axis = 1 : i64, largest = true, sorted = true}
            : (tensor<6x50xf32>) -> (tensor<6x5xf32>, tensor<6x5xi64>)
        return %0, %1 : tensor<6x5xf32>, tensor<6x5xi64>)"},
};

class PtxTest : public testing::TestWithParam<RegionRow> {};

TEST_P(PtxTest, AssemblesForEveryArchitectureAndIsTheSameEachTime) {
  const RegionRow &row = GetParam();
  std::string text = regionText(row.strategy, row.signature, row.body, row.symbols);
  for (const engine::CudaArch &row : engine::kCudaArchs) {
    const target::Target &gpu = target::targetOf(row);
    llvm::Expected<CompiledRegion> first = compileRegion(selectedForCuda(text, gpu), "k", gpu);
    ASSERT_TRUE(static_cast<bool>(first)) << llvm::toString(first.takeError());
    llvm::Expected<CompiledRegion> second = compileRegion(selectedForCuda(text, gpu), "k", gpu);
    ASSERT_TRUE(static_cast<bool>(second)) << llvm::toString(second.takeError());
    EXPECT_EQ(first->object, second->object);
    EXPECT_EQ(first->object.find(".local"), std::string::npos) << first->object;
    EXPECT_TRUE(assembles(first->object, gpu)) << gpu.variant();
  }
}

INSTANTIATE_TEST_SUITE_P(Regions, PtxTest, testing::ValuesIn(kRegions),
                         [](const testing::TestParamInfo<RegionRow> &info) {
                           return std::string(info.param.name);
                         });

std::string ptxOf(const char *strategy, const char *signature, const char *body) {
  const target::Target &gpu = target::targetOf("sm_90");
  llvm::Expected<CompiledRegion> region =
      compileRegion(selectedForCuda(regionText(strategy, signature, body, ""), gpu), "k", gpu);
  EXPECT_TRUE(static_cast<bool>(region)) << llvm::toString(region.takeError());
  return region ? region->object : std::string();
}

TEST(Instructions, HalvesAreTakenInPairs) {
  const RegionRow &chain = kRegions[0];
  std::string ptx = ptxOf(chain.strategy, chain.signature, chain.body);
  EXPECT_NE(ptx.find("fma.rn.f16x2"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("fma.rn.f16 "), std::string::npos) << ptx;
}

/// Each element is widened, summed, moved by the mean, squared into a sum and normed: once.
TEST(Instructions, NormsAddNothingAndMultiplyEachElementFourTimes) {
  std::string ptx = ptxOf("rows",
                          "(%x: tensor<24576x768xf16>, %s: tensor<768xf16>, "
                          "%b: tensor<768xf16>) -> tensor<24576x768xf16>",
                          R"(
    %0 = tn.layer_norm %x scale %s bias %b {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<24576x768xf16>, tensor<768xf16>, tensor<768xf16>) -> tensor<24576x768xf16>
    return %0 : tensor<24576x768xf16>)");
  llvm::StringRef left = ptx;
  size_t elements = 0, products = 0;
  while (!left.empty()) {
    llvm::StringRef line;
    std::tie(line, left) = left.split('\n');
    EXPECT_FALSE(line.contains("add.f32") && line.contains("0f00000000")) << line.str();
    elements += line.contains("cvt.rn.f16x2.f32") ? 2 : 0;
    products += line.contains("fma.rn.f32") || line.contains("mul.f32") ? 1 : 0;
  }
  EXPECT_GT(elements, 0u);
  // The difference, its square, the quotient, scale and bias; and of each row the mean's share of
  // each.
  EXPECT_LE(products, elements * 4 + 4);
}

llvm::Expected<std::string> emitText(const char *ir) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(ir, diagnostic, context);
  return emitPtx(*module, target::targetOf("sm_90"));
}

TEST(EmitPtx, ACallOfAMissingFunctionIsRefusedByName) {
  llvm::Expected<std::string> ptx = emitText(R"(
    declare float @__nv_expf(float)
    define ptx_kernel void @k(ptr addrspace(1) %p) {
      %x = load float, ptr addrspace(1) %p
      %y = call float @__nv_expf(float %x)
      store float %y, ptr addrspace(1) %p
      ret void
    })");
  ASSERT_FALSE(static_cast<bool>(ptx));
  EXPECT_EQ(llvm::toString(ptx.takeError()),
            "generated code calls '__nv_expf', which the PTX does not contain");
}

TEST(EmitPtx, CopiesOfMemoryBecomeLoops) {
  llvm::Expected<std::string> ptx = emitText(R"(
    declare void @llvm.memcpy.p1.p1.i64(ptr addrspace(1), ptr addrspace(1), i64, i1)
    define ptx_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q, i64 %n) {
      call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) %p, ptr addrspace(1) %q, i64 %n, i1 false)
      ret void
    })");
  ASSERT_TRUE(static_cast<bool>(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_TRUE(assembles(*ptx, target::targetOf("sm_90")));
}

TEST(LinkPtx, OneHeaderAllKernelsAndAZeroByte) {
  const target::Target &gpu = target::targetOf("sm_80");
  std::string text = regionText(kRegions[0].strategy, kRegions[0].signature, kRegions[0].body);
  llvm::Expected<CompiledRegion> a = compileRegion(selectedForCuda(text, gpu), "a", gpu);
  llvm::Expected<CompiledRegion> b = compileRegion(selectedForCuda(text, gpu), "b", gpu);
  ASSERT_TRUE(a && b);
  llvm::Expected<std::string> linked = linkPtx({a->object, b->object});
  ASSERT_TRUE(static_cast<bool>(linked)) << llvm::toString(linked.takeError());
  EXPECT_EQ(linked->find(".version"), linked->rfind(".version"));
  EXPECT_NE(linked->find(".entry a("), std::string::npos);
  EXPECT_NE(linked->find(".entry b("), std::string::npos);
  EXPECT_EQ(linked->find('\0'), linked->size() - 1);
  EXPECT_TRUE(assembles(std::string(linked->c_str()), gpu));
}

TEST(LinkPtx, ModulesForDifferentArchitecturesAreRefused) {
  llvm::Expected<std::string> linked =
      linkPtx({".version 8.0\n.target sm_80\n", ".version 8.0\n.target sm_90\n"});
  ASSERT_FALSE(static_cast<bool>(linked));
  EXPECT_EQ(llvm::toString(linked.takeError()),
            "the PTX of one engine is for several architectures");
}

} // namespace
} // namespace tenon::codegen::cuda

// Kernels are laid out within the limits of the target that they are compiled for, and use nothing
// that it lacks: of all architectures, parts, and profiles that lower limits.
#include "test/unit/codegen/cpu/AttentionText.h"
#include "test/unit/codegen/cuda/GeluGemm.h"

#include "compiler/codegen/cuda/CudaCodegen.h"
#include "test/unit/codegen/SelectedText.h"

namespace tenon::codegen::cuda {
namespace {

/// A part of which little is left, by a device profile.
target::Target lowered(target::Target gpu, int64_t clusterBlocks) {
  gpu.cores = 3;
  gpu.registers = 32768;
  gpu.threads = 1024;
  gpu.blocks = 4;
  gpu.sharedBytes = 72 * 1024;
  gpu.sharedOfProcessor = gpu.sharedBytes + target::kKeptOfBlock;
  gpu.clusterBlocks = std::min(gpu.clusterBlocks, clusterBlocks);
  return gpu;
}

std::vector<target::Target> allTargets() {
  std::vector<target::Target> targets;
  for (const engine::CudaArch &arch : engine::kCudaArchs) {
    targets.push_back(target::targetOf(arch));
  }
  targets.push_back(*target::findPart("cuda", "h100"));
  targets.push_back(lowered(target::targetOf("sm_80"), 1));
  targets.push_back(lowered(target::targetOf("sm_90a"), 1));
  targets.push_back(lowered(target::targetOf("sm_90a"), 4));
  return targets;
}

std::string rows(const std::string &op, const std::string &tensor, const std::string &result) {
  return regionText("rows", "(%a: " + tensor + ") -> " + result,
                    "%0 = " + op + " : " +
                        (result == tensor ? tensor : "(" + tensor + ") -> " + result) +
                        "\nreturn %0 : " + result);
}

/// A convolution of pictures of 56 x 56.
std::string conv(const std::string &type, int64_t channels) {
  std::string depth = std::to_string(channels), x = "tensor<32x56x56x" + depth + "x" + type + ">",
              w = "tensor<" + depth + "x" + depth + "x3x3x" + type + ">";
  return regionText(
      "contraction", "(%x: " + x + ", %w: " + w + " {tn.constant}) -> " + x,
      "%0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, "
      "dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (" +
          x + ", " + w + ") -> " + x + "\n%1 = tn.silu %0 : " + x + "\nreturn %1 : " + x);
}

/// Of every room a region or more, those that ask for the most.
std::vector<std::string> regionTexts() {
  AttentionCase masked = plainAttention("f16", 64, 16, 384, 384, 64, 64);
  masked.mask = "tensor<64x1x1x384xf16>";
  std::vector<std::string> texts = {
      geluGemm("f16", 128, 4096, 1024, RightStored::ColumnsFirst),
      geluGemm("f16", 24576, 4096, 1024),
      geluGemm("bf16", 40, 4096, 4096),
      geluGemm("f32", 512, 512, 512),
      conv("f16", 256),
      conv("f32", 128),
      geluGemm("bf16", 16, 4096, 8192, RightStored::ColumnsFirst),
      attentionText(masked),
      attentionText(plainAttention("f16", 1, 32, 1, 4096, 128, 128, 8)),
      attentionText(plainAttention("bf16", 2, 8, 300, 300, 128, 128)),
      attentionText(plainAttention("bf16", 1, 32, 2048, 2048, 128, 128)),
      attentionText(plainAttention("f32", 1, 8, 300, 300, 64, 64)),
      rows("tn.reduce <sum> %a {axes = array<i64: 1>, keepdims = false}", "tensor<8x1048576xf32>",
           "tensor<8xf32>")};
  for (const char *tensor : {"tensor<16384x8192xf32>", "tensor<131072x1024xf16>",
                             "tensor<2048x65536xf16>", "tensor<512x262144xf16>"}) {
    texts.push_back(rows("tn.softmax %a {axis = 1 : i64}", tensor, tensor));
  }
  return texts;
}

/// What is in the PTX of a target that lacks it.
std::vector<std::string> unknownWords(llvm::StringRef ptx, const target::Target &gpu) {
  std::vector<std::string> found;
  auto look = [&](bool isKnown, std::initializer_list<const char *> words) {
    for (const char *word : words) {
      if (!isKnown && ptx.contains(word)) {
        found.push_back(word);
      }
    }
  };
  look(gpu.has(target::Feature::WarpgroupMma), {"wgmma", "setmaxnreg"});
  look(gpu.has(target::Feature::Tma), {"cp.async.bulk", "mbarrier.try_wait"});
  look(gpu.has(target::Feature::DependentLaunch), {"griddepcontrol"});
  look(gpu.hasClusters(), {".reqnctapercluster", "mapa", "barrier.cluster", "shared::cluster"});
  return found;
}

int64_t numberBehind(llvm::StringRef text, llvm::StringRef word) {
  int64_t number = 0;
  text.split(word).second.ltrim().take_while(llvm::isDigit).getAsInteger(10, number);
  return number;
}

/// Bytes of the shared arrays whose names begin with the kernel's.
int64_t staticShared(llvm::StringRef ptx, llvm::StringRef symbol) {
  int64_t bytes = 0;
  for (llvm::StringRef line : llvm::split(ptx, '\n')) {
    if (line.contains(".shared ") && line.contains((" " + symbol + "_shared").str())) {
      bytes += numberBehind(line, "[");
    }
  }
  return bytes;
}

/// What a region's kernels ask for beyond the target's limits.
std::vector<std::string> faultsOf(const CompiledRegion &region, const target::Target &gpu) {
  std::vector<std::string> faults = unknownWords(region.object, gpu);
  auto hold = [&](const char *what, int64_t wanted, int64_t most) {
    if (wanted > most) {
      faults.push_back(what + (" " + std::to_string(wanted)) + " of " + std::to_string(most));
    }
  };
  for (const RegionStep &step : region.code.steps) {
    if (!step.call.empty()) {
      continue;
    }
    llvm::StringRef kernel = llvm::StringRef(region.object)
                                 .split((".entry " + step.symbol + "(").c_str())
                                 .second.split(".entry")
                                 .first;
    bool isKnown = step.scratch.size() == 1;
    int64_t shared =
        staticShared(region.object, step.symbol) + (isKnown ? step.scratch[0].value : 0);
    int64_t blocks = std::max<int64_t>(1, numberBehind(kernel.split('{').first, ".minnctapersm"));
    hold("threads of a block", step.threads, 1024);
    hold("threads", blocks * step.threads, gpu.threads);
    hold("shared memory", shared, gpu.sharedOfBlock(1));
    hold("blocks of a cluster", step.cluster, gpu.clusterBlocks);
  }
  return faults;
}

CompiledRegion compiled(const std::string &text, const target::Target &gpu) {
  llvm::Expected<CompiledRegion> region = compileRegion(selectedForCuda(text, gpu), "k", gpu);
  EXPECT_TRUE(static_cast<bool>(region)) << gpu.variant() << llvm::toString(region.takeError());
  return region ? std::move(*region) : CompiledRegion();
}

TEST(TargetLimits, AreHeldByEveryKernel) {
  for (const target::Target &gpu : allTargets()) {
    for (const std::string &text : regionTexts()) {
      EXPECT_EQ(faultsOf(compiled(text, gpu), gpu), std::vector<std::string>())
          << target::describe(gpu) << "\n"
          << text;
    }
  }
}

/// What is made for one target does not fit another: the check sees it.
TEST(TargetLimits, KernelsOfALargerTargetAreFound) {
  const target::Target &large = target::targetOf("sm_90a"), &small = target::targetOf("sm_89");
  for (const std::string &text : regionTexts()) {
    EXPECT_NE(faultsOf(compiled(text, large), small), std::vector<std::string>()) << text;
  }
  CompiledRegion region = compiled(geluGemm("f32", 512, 512, 512), small);
  EXPECT_TRUE(faultsOf(region, small).empty());
  target::Target tiny = small;
  tiny.sharedBytes = 1024;
  tiny.threads = 32;
  EXPECT_EQ(faultsOf(region, tiny).size(), 2u);
}

/// A part's numbers decide, not the row of its architecture.
TEST(TargetLimits, OfAPartDecide) {
  std::string text = geluGemm("bf16", 16, 4096, 8192, RightStored::ColumnsFirst);
  target::Target gpu = target::targetOf("sm_90a");
  std::string whole = selectedForCuda(text, gpu);
  gpu.cores = 40;
  EXPECT_NE(selectedForCuda(text, gpu), whole);
}

} // namespace
} // namespace tenon::codegen::cuda

// collective_ptx ARCH: PTX of the collectives that collective_check measures, for two ranks.

#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/codegen/cuda/collective/Collective.h"
#include "compiler/target/Target.h"
#include "engine/CollectiveAbi.h"

#include <cstdio>

namespace tenon::gpu {
namespace {

using namespace codegen::cuda;

int run(const char *architecture) {
  const target::Target &gpu = target::targetOf(architecture);
  std::vector<std::string> modules;
  auto add = [&](const auto &kernel) {
    modules.push_back(llvm::cantFail(collectivePtx(kernel, gpu)));
  };
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    add(AllReduceKernel{type, 2, engine::kOneShotThreads, false});
    add(AllReduceKernel{type, 2, engine::kTwoShotThreads, true});
  }
  add(AllGatherKernel{2, engine::kOneShotThreads});
  for (int64_t width : {512, 2048, 4096, 8192}) {
    add(AllReduceNormKernel{DType::BF16, 2, width, 1e-5f});
  }
  std::vector<llvm::StringRef> texts(modules.begin(), modules.end());
  std::string linked = llvm::cantFail(linkPtx(texts));
  std::fwrite(linked.data(), 1, linked.size() - 1, stdout);
  return 0;
}

} // namespace
} // namespace tenon::gpu

int main(int count, char **arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: collective_ptx ARCH\n");
    return 2;
  }
  return tenon::gpu::run(arguments[1]);
}

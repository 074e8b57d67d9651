// Binds the two code generators to one interface. A CPU region is one kernel over all its buffers
// and symbols, few with one before it; the support code of a level is compiled once and kept in the
// cache.
#include "compiler/pipeline/CodeTarget.h"

#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/pipeline/BuildStamp.h"
#include "support/text/Text.h"
#include "llvm/ADT/MapVector.h"

#include <deque>

namespace tenon::pipeline {
namespace {

codegen::CompiledRegion asRegion(codegen::cpu::Kernel kernel, const RegionShape &shape) {
  codegen::RegionStep step;
  step.symbol = std::move(kernel.symbol);
  step.reads = static_cast<uint32_t>(shape.inputs);
  for (uint32_t i = 0; i < shape.inputs + shape.outputs; ++i) {
    step.buffers.push_back(i);
  }
  for (size_t i = 0; i < shape.symbols; ++i) {
    step.sizes.push_back({{engine::ExprOp::Symbol, static_cast<int64_t>(i)}});
  }
  step.grid = std::move(kernel.grid);
  step.scratch = std::move(kernel.scratch);
  step.mayOverwriteInputs = kernel.mayOverwriteInputs;
  codegen::CompiledRegion region;
  for (codegen::Program &bytes : kernel.temporaries) {
    step.buffers.push_back(static_cast<uint32_t>(step.buffers.size()));
    region.code.temporaries.push_back(std::move(bytes));
  }
  if (!kernel.preparing.empty()) {
    codegen::RegionStep first = step;
    first.symbol = std::move(kernel.preparing);
    first.grid = {{engine::ExprOp::Constant, 1}};
    first.scratch = {};
    region.code.steps.push_back(std::move(first));
  }
  region.code.steps.push_back(std::move(step));
  region.object = std::move(kernel.object);
  return region;
}

llvm::Expected<std::string> supportCode(const CodeTarget &target, engine::CpuLevel level,
                                        const std::string &name, const CompileCache &cache) {
  Hash128 key = hashText(
      strCat("support\n", buildStamp(), '\n', target.level, '\n', target.mode, '\n', name));
  if (std::optional<std::string> found = cache.find(key)) {
    return std::move(*found);
  }
  llvm::Expected<std::string> made = codegen::cpu::supportObject(level, name);
  if (made) {
    cache.store(key, *made);
  }
  return made;
}

} // namespace

CodeTarget cpuTarget(engine::CpuLevel level, const target::Target &rates, bool guarded,
                     const codegen::cpu::KernelFamilies &families,
                     const KernelLibraries &libraries) {
  target::Target cpu = target::atLevel(rates, level);
  CodeTarget target{.level = std::string(engine::nameOf(level)),
                    .mode = guarded ? "guarded" : "",
                    .compile = {},
                    .select = {},
                    .candidates = {},
                    .link = {}};
  target.select = [cpu, &families](llvm::StringRef text, const dispatch::KernelRequest &request) {
    return codegen::cpu::selectKernel(text, cpu, request, families);
  };
  target.candidates = [cpu, &families](llvm::StringRef text) {
    return codegen::cpu::kernelCandidates(text, cpu, families);
  };
  target.compile = [cpu, guarded, &families](
                       llvm::StringRef text, llvm::StringRef symbol,
                       const RegionShape &shape) -> llvm::Expected<codegen::CompiledRegion> {
    llvm::Expected<codegen::cpu::Kernel> kernel =
        codegen::cpu::compileRegion(text, symbol, cpu, guarded, families);
    if (!kernel) {
      return kernel.takeError();
    }
    if (kernel->exchange) {
      return codegen::CompiledRegion{{{std::move(*kernel->exchange)}, {}}, ""};
    }
    return asRegion(std::move(*kernel), shape);
  };
  target.link = [level, libraries,
                 keys = target](llvm::ArrayRef<llvm::StringRef> ofRegions,
                                llvm::ArrayRef<llvm::StringRef> symbols,
                                const CompileCache &cache) -> llvm::Expected<std::string> {
    llvm::SmallVector<llvm::StringRef> objects(ofRegions); // exchanges between ranks have none
    llvm::erase_if(objects, [](llvm::StringRef object) { return object.empty(); });
    llvm::Expected<std::vector<std::string>> names = codegen::cpu::supportOf(objects);
    if (!names) {
      return names.takeError();
    }
    std::vector<std::string> support;
    for (const std::string &name : *names) {
      llvm::Expected<std::string> object = supportCode(keys, level, name, cache);
      if (!object) {
        return object.takeError();
      }
      support.push_back(std::move(*object));
    }
    llvm::SmallVector<llvm::StringRef> all(support.begin(), support.end());
    all.append(objects.begin(), objects.end());
    llvm::SmallVector<llvm::StringRef> ofUser;
    for (const std::shared_ptr<const kernels::Library> &library : libraries) {
      ofUser.push_back(
          {reinterpret_cast<const char *>(library->bytes.data()), library->bytes.size()});
    }
    return codegen::cpu::linkCode(all, symbols, ofUser);
  };
  return target;
}

std::vector<std::vector<engine::CpuLevel>>
groupsOfLevels(llvm::ArrayRef<engine::CpuLevel> levels,
               const codegen::cpu::KernelFamilies &families) {
  llvm::MapVector<uint64_t, std::vector<engine::CpuLevel>> groups;
  for (engine::CpuLevel level : levels) {
    const engine::CpuLevelRow &row = engine::rowOf(level);
    uint64_t decisive = row.features & codegen::cpu::choiceFeatures(families);
    groups[uint64_t(row.architecture) << 32 | decisive].push_back(level);
  }
  std::vector<std::vector<engine::CpuLevel>> result;
  for (auto &[key, group] : groups) {
    result.push_back(std::move(group));
  }
  return result;
}

/// Of a variant whose steps are all library calls and copies.
static llvm::Expected<std::string> ptxWithoutKernels(const target::Target &gpu) {
  int64_t version = gpu.ptxVersion;
  std::string text = strCat(".version ", version / 10, '.', version % 10, "\n.target ",
                            gpu.variant(), "\n.address_size 64\n");
  text.push_back('\0');
  return text;
}

/// A block that wants more shared memory than the target has could not be launched.
static llvm::Error checkShared(const codegen::CompiledRegion &region, const target::Target &gpu) {
  for (const codegen::RegionStep &step : region.code.steps) {
    bool isKnown = step.scratch.size() == 1 && step.scratch[0].op == engine::ExprOp::Constant;
    if (isKnown && step.scratch[0].value > gpu.sharedBytes) {
      return llvm::createStringError(strCat("the kernel ", step.symbol, " wants ",
                                            step.scratch[0].value, " bytes of shared memory, ",
                                            gpu.name, " has ", gpu.sharedBytes));
    }
  }
  return llvm::Error::success();
}

CodeTarget cudaTarget(const target::Target &gpu, const KernelLibraries &libraries) {
  CodeTarget target{.level = std::string(gpu.variant()),
                    .mode = target::describe(gpu),
                    .compile = {},
                    .select = {},
                    .candidates = {},
                    .link = {}};
  target.select = [gpu](llvm::StringRef text, const dispatch::KernelRequest &request) {
    return codegen::cuda::selectKernel(text, gpu, request);
  };
  target.candidates = [gpu](llvm::StringRef text) {
    return codegen::cuda::kernelCandidates(text, gpu);
  };
  target.compile = [gpu,
                    libraries](llvm::StringRef text, llvm::StringRef symbol,
                               const RegionShape &) -> llvm::Expected<codegen::CompiledRegion> {
    llvm::Expected<codegen::CompiledRegion> region =
        codegen::cuda::compileRegion(text, symbol, gpu, libraries);
    if (!region) {
      return region.takeError();
    }
    if (llvm::Error error = checkShared(*region, gpu)) {
      return std::move(error);
    }
    return region;
  };
  target.link = [gpu](llvm::ArrayRef<llvm::StringRef> objects,
                      llvm::ArrayRef<llvm::StringRef> symbols,
                      const CompileCache &) -> llvm::Expected<std::string> {
    if (symbols.empty()) {
      return ptxWithoutKernels(gpu);
    }
    llvm::SmallVector<llvm::StringRef> all(objects);
    std::deque<std::string> collectives; // belong to no region
    for (llvm::StringRef symbol : symbols) {
      if (codegen::cuda::isCollective(symbol)) {
        llvm::Expected<std::string> ptx = codegen::cuda::collectivePtx(symbol, gpu);
        if (!ptx) {
          return ptx.takeError();
        }
        all.push_back(collectives.emplace_back(std::move(*ptx)));
      }
    }
    return codegen::cuda::linkPtx(all);
  };
  return target;
}

std::vector<std::string> kernelFamilyNames() {
  std::vector<std::string> names = codegen::cpu::familyNames();
  llvm::append_range(names, codegen::cuda::familyNames());
  return names;
}

unsigned kernelFamilyRevision(llvm::StringRef family) {
  return std::max(codegen::cpu::revisionOf(family), codegen::cuda::revisionOf(family));
}

const dispatch::Approximation *approximationOf(llvm::StringRef family) {
  return codegen::cpu::approximationOf(family);
}

} // namespace tenon::pipeline

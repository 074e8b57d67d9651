// The table of CPU kernel families. Relies on the last one taking any region.
#include "compiler/codegen/common/region/ContextPool.h"
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/DotStep.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

ContextPool &lookedAt() {
  static ContextPool pool([] {
    DialectRegistry registry;
    registry.insert<tn::TnDialect, func::FuncDialect>();
    return registry;
  }());
  return pool;
}

/// A region in a context that nobody else has meanwhile.
class ParsedRegion {
public:
  explicit ParsedRegion(StringRef text)
      : lent(lookedAt().lend()),
        module(parseSourceString<ModuleOp>(text, ParserConfig(&lent.context()))) {}

  llvm::Expected<Region> region(const target::Target &target) {
    func::FuncOp function = module ? module->lookupSymbol<func::FuncOp>("kernel") : func::FuncOp();
    if (!function || Region(function, target).strategy().empty()) {
      return llvm::createStringError("region text does not parse or has no strategy");
    }
    return Region(function, target);
  }

private:
  ContextPool::Lent lent;
  OwningOpRef<ModuleOp> module;
};

} // namespace

const KernelFamilies &kernelFamilies() {
  static const KernelFamily *const kFamilies[] = {
      &kCollective,    &kConvGrouped,    &kGemmPacked,     &kGemmLowBits,  &kConvWinograd2,
      &kConvWinograd4, &kAttentionFlash, &kAttentionPaged, &kPagedWrite,   &kConvPatches,
      &kScan,          &kRecurrence,     &kTopKVectors,    &kSortRadix,    &kTopKHeap,
      &kConcatCopy,    &kSoftmaxColumns, &kResizeRows,     &kScatterOwned, &kHistogram,
      &kUserKernel,    &kTiled,
  };
  static const KernelFamilies table(kFamilies);
  return table;
}

double secondsWithWork(Region &region, llvm::function_ref<double(Operation &)> times) {
  dispatch::CostModel costs(region.source->getParentOfType<ModuleOp>(), region.target());
  double extra = 0;
  for (Operation &op : region.source.getBody().front().without_terminator()) {
    if (op.hasTrait<tn::TnContraction>()) {
      extra += (times(op) - 1 / dispatch::narrowRate(&op, region.target())) * costs.workOf(&op);
    }
  }
  return ratedSeconds(region) + extra / region.target().peak;
}

bool multipliesRoundedRows(engine::CpuLevel level) {
  return engine::rowOf(level).architecture == engine::Architecture::X86_64 &&
         DotStep::isOneInstruction(level, ProductType::U8S8);
}

std::vector<std::string> familyNames() { return kernelFamilies().names(); }

unsigned revisionOf(StringRef name) {
  const KernelFamily *family = kernelFamilies().find(name);
  return family ? family->revision : 0;
}

const dispatch::Approximation *approximationOf(StringRef name) {
  const KernelFamily *family = kernelFamilies().find(name);
  return family ? family->approximation : nullptr;
}

uint32_t choiceFeatures(const KernelFamilies &families) { return families.features(); }

llvm::Expected<dispatch::KernelSelection> selectKernel(StringRef text, const target::Target &target,
                                                       const dispatch::KernelRequest &request,
                                                       const KernelFamilies &families) {
  ParsedRegion parsed(text);
  llvm::Expected<Region> region = parsed.region(target);
  return region ? families.select(*region, request) : region.takeError();
}

llvm::Expected<std::vector<dispatch::KernelCandidate>>
kernelCandidates(StringRef text, const target::Target &target, const KernelFamilies &families) {
  ParsedRegion parsed(text);
  llvm::Expected<Region> region = parsed.region(target);
  return region ? families.candidates(*region) : region.takeError();
}

} // namespace tenon::codegen::cpu

// Which CPU levels a compilation adds, which of them share regions and plan, and which kernels a
// group has. Relies on the group's module being optimized, and on what its products were priced at.
#include "compiler/pipeline/Compilation.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"
#include "support/Check.h"

#include <algorithm>

using namespace mlir;

namespace tenon::pipeline {

/// Levels of x86-64 that a group gains by and has not: of the model's products of bytes and of
/// bf16, also where all of them are faster in FP32 on the group's first level.
void Compilation::addLevels(TargetGroup &group, const ProductPrices &prices) const {
  constexpr uint32_t kUnitsOfWords = engine::x86::kVnni | engine::x86::kAvxVnni;
  constexpr uint32_t kUnitsOfBytes = kUnitsOfWords | engine::x86::kAmxInt8;
  uint32_t units =
      (prices.hasBytes() ? kUnitsOfBytes : 0) | (prices.hasBf16() ? engine::x86::kAmxBf16 : 0);
  group.module->walk([&](Operation *op) {
    if (isa<tn::MatmulOp, tn::ConvOp, tn::AttentionOp, tn::PagedAttentionOp>(op)) {
      Type element = getElementTypeOrSelf(op->getOperand(1));
      units |= element.isBF16() ? engine::x86::kAmxBf16 : 0;
      bool isCache = isa<tn::PagedAttentionOp>(op); // whose codes become floats
      units |= element.isInteger(8) && !isCache ? kUnitsOfBytes : 0;
    }
    units |= options.allowInt8Activations && isa<tn::DecodeRowsOp>(op) ? kUnitsOfBytes : 0;
  });
  std::vector<engine::CpuLevel> levels;
  for (const CodeTarget &target : group.targets) {
    levels.push_back(*engine::parseCpuLevel(target.level));
  }
  for (const engine::CpuLevelRow &row : engine::kCpuLevels) {
    bool isOfGroup = row.architecture == engine::Architecture::X86_64 &&
                     groupsOfLevels({levels.front(), row.level}, *hooks.cpuFamilies).size() == 1;
    // Units that no worse level has.
    uint32_t gained = row.features & units;
    for (engine::CpuLevel level : levels) {
      uint32_t has = engine::rowOf(level).features;
      gained &= (has & ~row.features) == 0 ? ~has : ~uint32_t(0);
    }
    if (isOfGroup && gained != 0) {
      levels.push_back(row.level);
      group.targets.push_back(cpuTarget(row.level, options.cpu, options.guard, *hooks.cpuFamilies,
                                        options.kernelLibraries));
    }
  }
  llvm::sort(group.targets, [](const CodeTarget &a, const CodeTarget &b) {
    return *engine::parseCpuLevel(a.level) < *engine::parseCpuLevel(b.level);
  });
}

/// Whether the group's products by weights of few bits are ones of integers on a level.
bool Compilation::hasRoundedRows(const TargetGroup &group, const CodeTarget &target) const {
  if (!options.allowInt8Activations || group.device != engine::kHost ||
      !codegen::cpu::multipliesRoundedRows(*engine::parseCpuLevel(target.level))) {
    return false;
  }
  ModuleOp optimized = group.module.get();
  return optimized.walk([](tn::DecodeRowsOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Levels on which other products are faster in FP32 than on the first one become a group of their
/// own: with all others they share regions and plan.
void Compilation::splitLevels(TargetGroup &group, const ProductPrices &prices) {
  auto other = std::stable_partition(
      group.targets.begin() + 1, group.targets.end(), [&](const CodeTarget &target) {
        return prices.areDecidedAlike(target) &&
               hasRoundedRows(group, target) == hasRoundedRows(group, group.targets.front());
      });
  if (other == group.targets.end()) {
    return;
  }
  std::vector<CodeTarget> others(std::make_move_iterator(other),
                                 std::make_move_iterator(group.targets.end()));
  group.targets.erase(other, group.targets.end());
  engine::CpuLevel level = *engine::parseCpuLevel(others.front().level);
  groups.emplace_back(target::atLevel(options.cpu, level), engine::kHost, std::move(others));
  groups.back().isSplitOff = true;
}

/// Regions whose kernel needs no permission but has other roundings than a direct sum.
void Compilation::noteApproximations(TargetGroup &group) {
  group.module->walk([&](tn::RegionOp region) {
    llvm::Expected<dispatch::KernelChoice> choice =
        dispatch::KernelChoice::fromAttribute(region->getAttr(codegen::kKernelAttribute));
    TENON_CHECK(bool(choice), "each region has a kernel once kernels are chosen");
    if (const dispatch::Approximation *known = approximationOf(choice->family)) {
      group.precision.approximated.push_back(
          {region.getLoc(), known->operation.str(), {known->name, known->why}});
    }
  });
}

/// Which kernel computes each region of a group, and what it takes on each of its levels.
Status Compilation::selectKernels(TargetGroup &group, KernelSelector &selector,
                                  LevelRecords &others) {
  std::optional<MeasuredKernels> measured;
  if (options.tuned && !options.guard) {
    measured.emplace(*options.tuned, group.targets, options.notice,
                     /*countsChoices=*/options.stopAfter == Phase::Dispatch);
  }
  TENON_TRY(selector.select(
      *group.module, group.fusion, options.maxWeights, measured ? &*measured : nullptr,
      [&](tn::RegionOp region, dispatch::RegionRecord &record) { others.add(region, record); }));
  if (measured) {
    llvm::append_range(summary.tuned, measured->info());
  }
  for (const dispatch::RegionRecord &region : group.fusion.regions) {
    if (!region.slow.empty()) {
      summary.slow.push_back(
          {group.targets.front().level, region.label, region.kernel, region.slow});
    }
  }
  return Status::ok();
}

} // namespace tenon::pipeline

// Implements the records: each other level is asked about the kernel that the first one chose.
#include "compiler/pipeline/LevelRecords.h"

#include "compiler/dispatch/Cost.h"

using namespace mlir;

namespace tenon::pipeline {

LevelRecords::LevelRecords(const target::Target &profile, llvm::ArrayRef<CodeTarget> targets,
                           WantedKernels &wanted, const ProductPrices &productPrices)
    : first(targets.front()), firstProfile(profile), prices(productPrices) {
  for (const CodeTarget &target : targets.drop_front()) {
    levels.push_back({&target, target::atLevel(profile, *engine::parseCpuLevel(target.level)),
                      KernelSelector(target, wanted)});
  }
}

dispatch::OtherNumbers LevelRecords::otherOf(const dispatch::RegionRecord &record,
                                             const CodeTarget &target,
                                             const target::Target &profile) const {
  dispatch::OtherNumbers other =
      record.priced ? prices.otherOf(*record.priced, target) : dispatch::OtherNumbers();
  if (other.name.empty()) {
    return record.other;
  }
  if (!record.wide.empty()) {
    bool isOfBytes = other.name != "bf16";
    other.bytesMicroseconds = record.cost.bytesMicroseconds / (isOfBytes ? 4 : 2);
    other.workMicroseconds =
        record.cost.workMicroseconds / (isOfBytes ? profile.byteRate : profile.bf16Rate);
  } else {
    other.bytesMicroseconds = record.other.bytesMicroseconds;
    other.workMicroseconds = record.other.workMicroseconds;
  }
  return other;
}

void LevelRecords::add(tn::RegionOp region, dispatch::RegionRecord &record) {
  record.other = otherOf(record, first, firstProfile);
  for (Level &level : levels) {
    const dispatch::KernelSelection *selection = level.selector.predict(region, record.kernel);
    if (!selection) {
      continue; // compiling it will tell
    }
    dispatch::Cost cost =
        dispatch::costOfRegion(region.getBody().front(), level.profile, /*isGenerated=*/false);
    record.levels.push_back({level.target->level, selection->microseconds, cost.bytesMicroseconds,
                             cost.workMicroseconds, otherOf(record, *level.target, level.profile),
                             selection->candidates});
  }
}

} // namespace tenon::pipeline

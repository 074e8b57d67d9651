// What records say of the other levels of a group: the same regions and kernels take other times
// there. Relies on CodeTarget::select being pure.
#pragma once

#include "compiler/pipeline/ProductPrices.h"
#include "compiler/pipeline/SelectKernels.h"

#include <deque>

namespace tenon::pipeline {

class LevelRecords {
public:
  /// Of a group's targets, of which the first decides. All must outlive this.
  LevelRecords(const target::Target &profile, llvm::ArrayRef<CodeTarget> targets,
               WantedKernels &wanted, const ProductPrices &prices);

  /// Once the kernel of a region is chosen, before it is its attribute's and its weights move.
  void add(tn::RegionOp region, dispatch::RegionRecord &record);

private:
  struct Level {
    const CodeTarget *target;
    target::Target profile;
    KernelSelector selector;
  };
  /// What the other form of a region's products takes on a level; as it is where it has no price.
  dispatch::OtherNumbers otherOf(const dispatch::RegionRecord &record, const CodeTarget &target,
                                 const target::Target &profile) const;

  const CodeTarget &first;
  const target::Target &firstProfile;
  const ProductPrices &prices;
  std::deque<Level> levels;
};

} // namespace tenon::pipeline

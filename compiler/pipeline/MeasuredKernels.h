// What a tuning store says of the regions of a module. Relies on regions that are formed, whose
// kernels are not chosen yet: so the text of a region is the same with and without a store.
#pragma once

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/dispatch/KernelChoice.h"
#include "compiler/pipeline/CodeTarget.h"
#include "compiler/pipeline/CompileSummary.h"
#include "compiler/tuning/TuningDatabase.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::pipeline {

/// "conv_grouped 1, gemm_packed 1": the families of these kernels and their revisions.
std::string familiesOf(llvm::ArrayRef<dispatch::KernelCandidate> candidates);

class MeasuredKernels {
public:
  struct Found {
    std::optional<dispatch::KernelChoice> kernel; ///< none where nothing is known
    std::string why;                              ///< what was measured, for people
  };

  /// For the levels of `codeTargets`, which share their kernels. `notice` is told of records that
  /// fit no region; it may be null. All must outlive the object. With `countsChoices`, which takes
  /// time, regions that one kernel alone computes are told from those that were not measured.
  MeasuredKernels(const tuning::TuningDatabase &store, llvm::ArrayRef<CodeTarget> codeTargets,
                  const std::function<void(std::string_view text)> &notice, bool countsChoices);

  /// For a region that would get the kernel `untuned`.
  Found find(const codegen::RegionSource &source, const std::string &label,
             const dispatch::KernelChoice &untuned, llvm::ArrayRef<std::string> disabled);
  /// Of what was found last: the region cannot have it. TN0140.
  void refuse(std::string_view why);

  const std::vector<TunedRegion> &info() const { return regions; }

private:
  /// What the store answers about a region with this text.
  const tuning::TuningDatabase::Answer &ask(const codegen::RegionSource &source,
                                            TunedRegion &region);
  bool hasChoice(const codegen::RegionSource &source) const;

  const tuning::TuningDatabase &database;
  const CodeTarget &target;
  std::vector<std::string> levels;
  const std::function<void(std::string_view text)> &told;
  bool countsChoices;
  llvm::StringMap<tuning::TuningDatabase::Answer> known;
  llvm::StringSet<> refused; ///< problems, each told once
  std::vector<TunedRegion> regions;
};

} // namespace tenon::pipeline

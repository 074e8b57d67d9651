// The end of dispatch: each region of a module gets the kernel that will compute it, as
// `tn.kernel`, and its weights in the layout of that kernel. Relies on CodeTarget::select being
// pure, so that equal regions get equal kernels.
#pragma once

#include "compiler/dispatch/KernelChoice.h"
#include "compiler/dispatch/Records.h"
#include "compiler/pipeline/CodeTarget.h"
#include "compiler/pipeline/MeasuredKernels.h"
#include "compiler/pipeline/Pipeline.h"
#include "llvm/ADT/StringMap.h"

namespace tenon::pipeline {

/// The kernels that the user asks for (CompileOptions::kernels, disabledFamilies).
class WantedKernels {
public:
  /// An error names what does not read, and families that no target has.
  static Result<WantedKernels> create(const CompileOptions &options);

  /// Of a region with these nodes; null for none.
  const dispatch::KernelChoice *find(llvm::ArrayRef<std::string> nodes);
  llvm::ArrayRef<std::string> disabled() const { return disabledFamilies; }
  bool areAny() const { return !kernels.empty() || !disabledFamilies.empty(); }
  /// An error names a node that no region has had.
  Status checkFound() const;

private:
  struct Wanted {
    std::string node;
    dispatch::KernelChoice kernel;
    bool isFound = false;
  };
  std::vector<Wanted> kernels;
  std::vector<std::string> disabledFamilies;
};

/// Asks the target about regions, about equal ones once.
class KernelSelector {
public:
  /// Both must outlive the selector.
  KernelSelector(const CodeTarget &codeTarget, WantedKernels &wantedKernels)
      : target(codeTarget), wanted(wantedKernels) {}

  /// dispatch::dispatch by the predicted times of the kernels that would be chosen.
  llvm::LogicalResult formRegions(mlir::ModuleOp module, const target::Target &profile,
                                  dispatch::Records &records);

  /// Writes the choice on every region of the module, lays weights out for it, and writes what each
  /// family answered into `records`. With `maxWeights`, weights in their layouts take at most so
  /// many times what they take as they are; without, what was measured goes before predictions.
  /// `chosen` is told of each region that has a record before its weights have a layout.
  Status select(mlir::ModuleOp module, dispatch::Records &records,
                std::optional<double> maxWeights = std::nullopt,
                MeasuredKernels *measured = nullptr,
                llvm::function_ref<void(tn::RegionOp, dispatch::RegionRecord &)> chosen = {});
  /// What the target of this selector says of a region that a kernel was chosen for; null where it
  /// has no such kernel.
  const dispatch::KernelSelection *predict(tn::RegionOp region, const std::string &kernel);

private:
  struct Answer {
    dispatch::KernelSelection selection;
    std::string problem; ///< empty if there is a selection
  };
  const Answer &ask(tn::RegionOp region);
  /// The same by what was measured, where it is known and the user asks for no kernel.
  const Answer &askMeasured(tn::RegionOp region, MeasuredKernels &measured);
  /// The answer where the user asks for a kernel, or for none where it is null.
  const Answer &ask(const std::string &text, const dispatch::KernelChoice *kernel);
  /// The chosen one, then all others that the user allows.
  std::vector<dispatch::KernelCandidate> kernelsOf(tn::RegionOp region);

  const CodeTarget &target;
  WantedKernels &wanted;
  llvm::StringMap<Answer> known;
};

} // namespace tenon::pipeline

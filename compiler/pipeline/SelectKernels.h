// The end of dispatch: each region of a module gets the kernel that will compute it, as
// `tn.kernel`. Relies on CodeTarget::select being pure, so that equal regions get equal kernels.
#pragma once

#include "compiler/dispatch/KernelChoice.h"
#include "compiler/dispatch/Records.h"
#include "compiler/pipeline/CodeTarget.h"
#include "compiler/pipeline/Pipeline.h"

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

/// Writes the choice on every region, and what each family answered into `records`.
Status selectKernels(mlir::ModuleOp module, const CodeTarget &target, WantedKernels &wanted,
                     dispatch::Records &records);

} // namespace tenon::pipeline

// Relies on compiler/kernels for what a description says.
#include "tools/tenon/target/KernelLibraries.h"

#include "tools/plugin/KernelTrial.h"

namespace tenon::tool {

Status applyKernels(const KernelFlags &flags, pipeline::CompileOptions &options) {
  for (const std::string &path : flags.libraries) {
    TENON_ASSIGN(std::shared_ptr<const kernels::Library> library, kernels::readLibrary(path));
    options.kernelLibraries.push_back(std::move(library));
  }
  options.uncheckedKernels = flags.areUnchecked;
  options.tryKernel = kernelTrials();
  return Status::ok();
}

} // namespace tenon::tool

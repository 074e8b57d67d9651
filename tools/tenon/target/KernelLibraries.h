// The user's kernels as the flags name them.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::tool {

struct KernelFlags {
  std::vector<std::string> libraries; ///< paths
  bool areUnchecked = false;          ///< as pipeline::CompileOptions::uncheckedKernels
};

/// Reads the libraries into the options, which get what tries kernels on this machine. TN0306 for a
/// description that is not valid.
Status applyKernels(const KernelFlags &flags, pipeline::CompileOptions &options);

} // namespace tenon::tool

// `bench --kernels`: the kernels that can compute each region of a model, predicted and measured.

#pragma once

#include "runtime/core/Session.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/inputs/Inputs.h"

namespace tenon::tool {

struct KernelBenchRequest {
  OpenRequest open; ///< of a model
  InputFlags inputs;
  runtime::SessionOptions session;
  std::string node; ///< "all" for every region
  size_t mostOfFamily = 0;
  bool isCold = false;
};

/// Compiles and times one kernel after the other, each as an engine of its own.
Status benchKernels(const KernelBenchRequest &request, Terminal &terminal);

} // namespace tenon::tool

// `bench --kernels`: the kernels that can compute each region of a model, predicted and measured.

#pragma once

#include "compiler/pipeline/KernelTrials.h"
#include "runtime/core/Session.h"
#include "support/json/Json.h"
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
Result<std::vector<pipeline::RegionTrials>> benchKernels(const KernelBenchRequest &request,
                                                         TaskListener &listener);

/// For programs, as "regions" of tenon.kernels/1, and for people.
Json describeTrials(const std::vector<pipeline::RegionTrials> &regions);
std::string trialsText(const std::vector<pipeline::RegionTrials> &regions);

} // namespace tenon::tool

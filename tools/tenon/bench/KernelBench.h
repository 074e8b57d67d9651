// `bench --kernels`: the kernels that can compute each region of a model, predicted and measured.

#pragma once

#include "runtime/core/Session.h"
#include "support/json/Json.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/task/TaskListener.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tenon::tool {

struct KernelBenchRequest {
  OpenRequest open; ///< of a model
  InputFlags inputs;
  runtime::SessionOptions session;
  std::string node; ///< "all" for every region
  size_t mostOfFamily = 0;
  bool isCold = false;
};

struct KernelReport {
  Json json;        ///< tenon.kernels/1 without its schema
  std::string text; ///< the same for people
};

/// Compiles and times one kernel after the other, each as an engine of its own.
Result<KernelReport> benchKernels(const KernelBenchRequest &request, TaskListener &listener);

} // namespace tenon::tool

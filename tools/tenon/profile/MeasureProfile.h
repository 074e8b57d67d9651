// Opens an engine or a model and profiles it: limits of the machine, times of its steps, what they
// belong to, and advice.

#pragma once

#include "support/Result.h"
#include "tools/tenon/bench/Runner.h"
#include "tools/tenon/engines/ChildProcess.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/profile/Profile.h"
#include "tools/tenon/task/TaskListener.h"

#include <memory>
#include <optional>
#include <string>

namespace tenon::tool {

struct ProfileRequest {
  OpenRequest open; ///< its path is not used, and shapes are those of the inputs
  InputFlags inputs;
  runtime::SessionOptions session;
  double seconds = 2; ///< for passes; experiments take about as much again
};

/// A profile with what it was measured on.
struct Profiled {
  Profile profile;
  std::optional<EngineSource> source;
  std::unique_ptr<Runner> runner;
};

/// A process that will read a GPU's counters for measureProfile, as CUPTI may crash. To be made
/// before this process calls the driver.
Result<Child> startCounting(const ProfileRequest &request);

/// Of the engine or model at `path`. Nothing else should run meanwhile. With `counting` a GPU's
/// counters are read too; where they cannot be, a note of the profile says why.
Result<Profiled> measureProfile(const ProfileRequest &request, const std::string &path,
                                TaskListener &listener, Child *counting);

} // namespace tenon::tool

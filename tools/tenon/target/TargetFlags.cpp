// Implements what the flags of targets and precision mean to the compiler.

#include "tools/tenon/target/TargetFlags.h"

#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/target/DeviceProfile.h"
#include "tools/tenon/target/Target.h"
#include "tools/tenon/task/TaskListener.h"

#include <algorithm>

namespace tenon::tool {

void listen(pipeline::CompileOptions &options, TaskListener &listener) {
  options.notice = listener.notice();
  options.progress = [&](pipeline::Phase phase, double fraction) {
    listener.progress(nameOf(phase), overallFraction(phase, fraction));
  };
}

Status applyTarget(const TargetFlags &flags, pipeline::CompileOptions &request,
                   const std::function<void(std::string_view)> &notice) {
  TENON_ASSIGN(Targets targets, parseTargets(flags.targets));
  if (!flags.deviceProfile.empty()) {
    TENON_TRY(applyProfile(flags.deviceProfile, targets));
  }
  for (const std::string &note : targets.notes) {
    notice(note);
  }
  request.levels = std::move(targets.levels);
  request.addsLevels = targets.addsLevels;
  request.cpu = std::move(targets.cpu);
  request.gpus = std::move(targets.gpus);
  request.precision = opt::parsePrecision(flags.precision);
  request.allowTf32 = std::ranges::count(flags.allow, "tf32") > 0;
  request.allowTanhGelu = std::ranges::count(flags.allow, "tanh-gelu") > 0;
  request.allowInt8Activations = std::ranges::count(flags.allow, "int8-activations") > 0;
  for (const std::string &state : flags.states) {
    size_t sign = state.find('=');
    if (sign == std::string::npos) {
      return Status::error(ErrorId::BadArgument, "--state " + state + " does not name an output",
                           "write it as INPUT=OUTPUT, with names as tenon inspect prints them");
    }
    request.states.push_back({state.substr(0, sign), state.substr(sign + 1)});
  }
  return Status::ok();
}

} // namespace tenon::tool

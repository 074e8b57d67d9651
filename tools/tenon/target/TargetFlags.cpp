// Implements the flags of targets and precision.

#include "tools/tenon/target/TargetFlags.h"

#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/inputs/Options.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/print/Terminal.h"
#include "tools/tenon/target/DeviceProfile.h"
#include "tools/tenon/target/Target.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace tenon::tool {

void listen(pipeline::CompileOptions &options, Terminal &terminal) {
  options.notice = terminal.notice();
  options.progress = [&](pipeline::Phase phase, double fraction) {
    terminal.progress(nameOf(phase), overallFraction(phase, fraction));
  };
}

void declareTargetFlags(CLI::App &command, TargetFlags &flags) {
  command
      .add_option("--target", flags.targets,
                  "cpu for all CPU levels, some of them (cpu:avx2,avx512), the best of this "
                  "machine (cpu:native), or a GPU: "
                  "cuda (this machine's), cuda:h200, cuda:sm_90; separate several by commas; "
                  "docs/targets.md")
      ->allow_extra_args(false);
  command.add_option("--device-profile", flags.deviceProfile,
                     "A file written by doctor --calibrate; its rates and sizes replace those of "
                     "the built-in table");
  addChoice(command, "--precision", flags.precision, kPrecisions,
            "Keep the types of the model, or store and multiply in fp16 or bf16; fp8: fp16 whose "
            "large products multiply "
            "8-bit floats on GPUs that have them (sm_89 and later)");
  addChoices(command, "--allow", flags.allow, kAllowances,
             "Allow an approximation. tf32: products of fp32 may round their operands to TF32; "
             "tanh-gelu: GELU of "
             "fp16 and bf16 may use its tanh form, off by at most 4.8e-4");
  command
      .add_option("--state", flags.states,
                  "INPUT=OUTPUT: keep both in one buffer of the session, zero at first and updated "
                  "by each run; a * stands "
                  "for the same text in both")
      ->allow_extra_args(false);
}

void declareOpenFlags(CLI::App &command, OpenRequest &request) {
  command.add_option(
      "--variant,--isa", request.variant,
      "CPU level (avx2, avx512, avx512-vnni-bf16, armv8-a) or GPU architecture (sm_90) to use "
      "instead of the best one; doctor lists them");
  command.add_flag_callback(
      "--no-verify-weights", [&request] { request.verifyWeights = false; },
      "Open an engine without comparing its weights with their hashes: a little faster for large "
      "models, and damage to them is not seen");
}

void declareThreadsFlag(CLI::App &command, unsigned &threads, const std::string &description) {
  addNumber(
      command, "--threads", kThreads,
      [&threads](uint64_t number) { threads = static_cast<unsigned>(number); }, description);
}

void declareBudgetFlag(CLI::App &command, double &seconds) {
  addSeconds(command, "--budget", {0, kLongestSeconds}, seconds,
             "On a GPU: spend up to this time (60s, 2m) on measuring the algorithms of library "
             "calls, and use the "
             "fastest from now on");
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
  for (const std::string &state : flags.states) {
    size_t sign = state.find('=');
    if (sign == std::string::npos) {
      return Status::error(ErrorId::BadArgument, "--state " + state + " names no output",
                           "write it as INPUT=OUTPUT, with names as tenon inspect prints them");
    }
    request.states.push_back({state.substr(0, sign), state.substr(sign + 1)});
  }
  return Status::ok();
}

} // namespace tenon::tool

// `tenon tune`: kernels of a model are measured on this machine, and its engine gets the fastest.

#include "support/Environment.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/target/LocalStore.h"
#include "tools/tenon/target/TargetFlags.h"
#include "tools/tenon/tune/Tuner.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace tenon::tool {
namespace {

constexpr double kMinSeconds = 0.1;

struct TuneFlags {
  TuneRequest request;
  std::vector<std::string> shapes;
  TargetFlags target;
  std::string store;
  bool resumes = false;
  bool noCache = false;
};

Status tune(TuneFlags &flags, Terminal &terminal) {
  TuneRequest &request = flags.request;
  pipeline::CompileOptions &compile = request.compile;
  TENON_ASSIGN(compile.shapes, parseShapeArguments(flags.shapes));
  TENON_TRY(applyTarget(flags.target, compile, terminal.notice()));
  TENON_TRY(isModel(compile.model, Takes::Model).takeStatus());
  TENON_TRY(checkOutput(compile.output, compile.model));
  TENON_ASSIGN(request.store, storeFolder(flags.store));
  compile.cacheFolder = flags.noCache ? "" : userCacheFolder();
  compile.reproducer = reproducerOf(compile.output.empty() ? compile.model : compile.output);
  listen(compile, terminal);
  compile.cancel = terminal.cancelFlag();
  TENON_ASSIGN(TuneResult result, tuneModel(request, terminal));
  terminal.json() ? terminal.printJson("tune", describeTuning(result))
                  : terminal.print(tuneText(result));
  return Status::ok();
}

} // namespace

Action declareTune(CLI::App &command) {
  std::shared_ptr<TuneFlags> flags = std::make_shared<TuneFlags>();
  pipeline::CompileOptions &compile = flags->request.compile;
  compile.threads = usableCpus();
  flags->target.targets = {"cpu:native"};
  command.add_option("MODEL", compile.model, "The model (ONNX, .pt2 of torch.export, .tflite)")
      ->required();
  addOutput(command, compile.output,
            "Where to write the tuned engine; without it, only the store is updated");
  addSeconds(command, "--time", {kMinSeconds, kLongestSeconds}, flags->request.seconds,
             "How long to measure kernels (60s, 2m), the longest-running regions first; 60s by "
             "default, without compiling before and after");
  declareStoreFlag(command, flags->store);
  CLI::Option *resume = command.add_flag(
      "--resume", flags->resumes,
      "Continue an earlier run: what the store has is not measured again (the default)");
  command.add_flag("--again", flags->request.measuresAgain, "Measure again what the store has")
      ->excludes(resume);
  command.add_flag("--allow-noise", flags->request.allowNoise,
                   "Measure even if other programs disturb; only kernels that are faster in spite "
                   "of it are used");
  command
      .add_option("--shape", flags->shapes, "Dimensions of an input, as for compile: name:1x128")
      ->allow_extra_args(false);
  declareTargetFlags(command, flags->target);
  command.add_flag("--no-cache", flags->noCache,
                   "Do not use the compile cache; the store is still used");
  return [flags](Terminal &terminal) { return tune(*flags, terminal); };
}

} // namespace tenon::tool

// `tenon check`: what a model has that Tenon lacks, or whether an engine file is whole.

#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/BoardFlags.h"
#include "tools/tenon/cli/KernelFlags.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/compile/CheckFile.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace tenon::tool {

Action declareCheck(CLI::App &command) {
  std::shared_ptr<CheckRequest> request = std::make_shared<CheckRequest>();
  command.add_option("FILE", request->path, "A model (ONNX, .pt2, .tflite) or an engine")
      ->required();
  command
      .add_option("--target", request->targets,
                  "Check for this target, as for compile (c: for boards)")
      ->allow_extra_args(false);
  command.add_option("--shape", request->shapes, "Dimensions of an input, as for compile")
      ->allow_extra_args(false);
  declareKernelFlags(command, request->ownKernels);
  declareBoardFlags(command, request->board);
  declareUsersFlags(command, request->users);
  declareStrictFlag(command, request->strict);
  return [request](Terminal &terminal) -> Status {
    TENON_ASSIGN(CheckReport report, checkFile(*request));
    terminal.json() ? terminal.printJson("check", std::move(report.json))
                    : terminal.print(report.text);
    return report.verdict;
  };
}

} // namespace tenon::tool

// `tenon inspect`: what a model asks for or what an engine holds.

#include "tools/tenon/explain/Inspect.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/view/Escape.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace tenon::tool {
namespace {

struct InspectFlags {
  InspectRequest request;
  bool all = false;
};

Status inspect(InspectFlags &flags, Terminal &terminal) {
  InspectRequest &request = flags.request;
  if (terminal.json()) {
    request.format = "json";
  }
  TENON_ASSIGN(Inspection shown, inspectFile(request));
  if (!request.output.empty()) {
    terminal.note(fmt::format("{}: {}", request.output, formatBytes(shown.contents().size())));
  } else if (!shown.schema.empty()) {
    terminal.printJson(shown.schema, std::move(shown.json));
  } else if (request.format != "text") {
    terminal.printFile(shown.text);
  } else {
    terminal.print(flags.all ? shown.text
                             : inspectionScreen(shown.text, view::visible(request.path)));
  }
  return Status::ok();
}

} // namespace

Action declareInspect(CLI::App &command) {
  std::shared_ptr<InspectFlags> flags = std::make_shared<InspectFlags>();
  command.add_option("FILE", flags->request.path, "A model (ONNX, .pt2, .tflite) or an engine")
      ->required();
  addChoice(command, "--format", flags->request.format, kInspectFormats,
            "Output format: html is a page for a browser, onnx a graph for ONNX viewers");
  addOutput(command, flags->request.output, "Output file; stdout by default");
  command.add_flag("--all", flags->all, "Print all of the text instead of one screen");
  command
      .add_option("--shape", flags->request.shapes,
                  "Dimensions of an input: for a model as in compile, for an engine the sizes of "
                  "counts and estimates")
      ->allow_extra_args(false);
  command.add_option("--isa,--variant", flags->request.level,
                     "Variant of an engine; this machine's by default");
  declareUsersFlags(command, flags->request.users);
  command.add_option("--profile", flags->request.profile,
                     "Output of tenon bench --regions --json for this engine");
  return [flags](Terminal &terminal) { return inspect(*flags, terminal); };
}

} // namespace tenon::tool

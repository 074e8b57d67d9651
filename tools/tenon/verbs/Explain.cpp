// `tenon explain TOPIC ENGINE [NODE]`: prints the decisions that the engine carries.

#include "tools/tenon/explain/Explain.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/explain/ActivationCost.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace tenon::tool {
namespace {

struct ExplainFlags {
  ExplainRequest request;
  bool all = false;
};

Status explain(const ExplainFlags &flags, Terminal &terminal) {
  TENON_ASSIGN(Json explained, explainEngine(flags.request));
  if (flags.request.topic == "precision" && flags.request.node.empty()) {
    TENON_ASSIGN(Json cost, activationCost(flags.request));
    if (!cost.is_null()) {
      explained["int8_activations"] = std::move(cost);
    }
  }
  terminal.json() ? terminal.printJson("explain-" + flags.request.topic, std::move(explained))
                  : terminal.print(explanationText(flags.request, std::move(explained), flags.all));
  return Status::ok();
}

} // namespace

Action declareExplain(CLI::App &command) {
  std::shared_ptr<ExplainFlags> flags = std::make_shared<ExplainFlags>();
  addChoice(command, "TOPIC", flags->request.topic, explainTopics(), "What to explain")->required();
  command.add_option("ENGINE", flags->request.engine, "The engine")->required();
  command.add_option("NODE", flags->request.node,
                     "A node of the model, or a region; without it, an overview in one screen");
  command.add_flag("--all", flags->all, "Print everything instead of one screen");
  command
      .add_option("--shape", flags->request.shapes,
                  "Sizes of an input for the estimates, name:1x128; the likely ones by default")
      ->allow_extra_args(false);
  command.add_option("--isa,--variant", flags->request.level,
                     "Variant of the engine; this machine's by default");
  return [flags](Terminal &terminal) { return explain(*flags, terminal); };
}

} // namespace tenon::tool

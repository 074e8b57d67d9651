// `tenon explain TOPIC ENGINE [NODE]`: prints the decisions that the engine carries; and of a
// model, what several GPUs would make of it.

#include "tools/tenon/explain/Explain.h"
#include "runtime/tensors/ShapeText.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/explain/ActivationCost.h"
#include "tools/tenon/explain/BoardMemory.h"
#include "tools/tenon/explain/Sharding.h"
#include "tools/tenon/inputs/Units.h"
#include "tools/tenon/target/DeviceProfile.h"
#include "tools/tenon/target/Target.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace tenon::tool {
namespace {

constexpr const char *kSharding = "sharding";

struct ExplainFlags {
  ExplainRequest request;
  ShardingRequest sharding;
  std::string target = "cuda:h200", profile, allReduce;
  bool all = false;
};

Status explainSharding(ExplainFlags &flags, Terminal &terminal) {
  ShardingRequest &request = flags.sharding;
  request.model = flags.request.engine;
  TENON_ASSIGN(request.shapes, parseShapeArguments(flags.request.shapes));
  TENON_ASSIGN(Targets targets, parseTargets({flags.target}));
  if (!flags.profile.empty()) {
    TENON_TRY(applyProfile(flags.profile, targets));
  }
  request.target = targets.gpus.empty() ? targets.cpu : targets.gpus.front();
  if (!flags.allReduce.empty()) {
    std::optional<double> milliseconds = numberWithUnit(flags.allReduce, kTimes);
    if (!milliseconds || *milliseconds == 0) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("--all-reduce: '{}' is not a time", flags.allReduce),
                           "write 6.7us");
    }
    request.allReduce = *milliseconds * 1e-3;
  }
  TENON_ASSIGN(ShardingReport report, predictSharding(request));
  Json json = shardingJson(request, report);
  terminal.json() ? terminal.printJson("explain-sharding", std::move(json))
                  : terminal.print(shardingText(json, flags.all));
  return Status::ok();
}

/// What only `explain sharding` takes.
std::vector<CLI::Option *> declareShardingFlags(CLI::App &command, ExplainFlags &flags) {
  std::vector<CLI::Option *> own = {
      command.add_option("--tp", flags.sharding.ranks, "GPUs that share each layer: 1,2,4,8")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Range(1, 64)),
      command
          .add_option("--pp", flags.sharding.stages, "Stages of layers, each on GPUs of its own")
          ->check(CLI::Range(1, 64)),
      command
          .add_option("--micro-batches", flags.sharding.microBatches,
                      "Parts of a batch that pass the stages of --pp one after the other")
          ->check(CLI::Range(1, 1024)),
      command
          .add_option("--pin", flags.sharding.pins,
                      "Cut a matrix so: NODE=column, NODE=row or NODE=replicate; * in NODE stands "
                      "for any text (repeat for more)")
          ->allow_extra_args(false),
      command.add_option("--target", flags.target, "The GPU, as for compile; cuda:h200 by default"),
      command.add_option("--device-profile", flags.profile, "Rates of the GPU, as for compile"),
      command
          .add_option("--precision", flags.sharding.precision,
                      "Type of activations and caches; by default 16 bits if most weights have 16")
          ->check(CLI::IsMember({"fp32", "fp16", "bf16"})),
      command.add_option("--all-reduce", flags.allReduce,
                         "Time of a short all-reduce that you measured: 6.7us"),
      command.add_option("--context", flags.sharding.context, "Positions that a token sees")
          ->check(CLI::Range(1, 1 << 20)),
      command.add_option("--load", flags.sharding.load, "Positions in all caches together")
          ->check(CLI::Range(1, 1 << 30)),
      command.add_option("--pages", flags.sharding.pages, "Pages of a session, as for compile")
          ->check(CLI::Range(1, 1 << 30)),
      command.add_flag("--check", flags.sharding.isChecked,
                       "Run all ranks on the reference interpreter; for small models"),
  };
  for (CLI::Option *option : own) {
    option->group("Only of sharding");
  }
  return own;
}

/// A flag that the topic does not take, or nothing.
Status checkFlags(const ExplainFlags &flags, const std::vector<CLI::Option *> &ofSharding) {
  if (flags.request.topic == kSharding) {
    bool hasOthers = !flags.request.node.empty() || !flags.request.level.empty();
    return hasOthers ? Status::error(ErrorId::BadArgument,
                                     "explain sharding is about a model: it takes no NODE and no "
                                     "--variant",
                                     "--all shows the matrices for each number of GPUs")
                     : Status::ok();
  }
  for (const CLI::Option *option : ofSharding) {
    if (option->count() > 0) {
      return Status::error(
          ErrorId::BadArgument,
          fmt::format("{}: explain {} does not take it", option->get_name(), flags.request.topic),
          "tenon explain sharding MODEL does");
    }
  }
  return Status::ok();
}

Status explain(ExplainFlags &flags, Terminal &terminal) {
  if (flags.request.topic == kSharding) {
    return explainSharding(flags, terminal);
  }
  if (flags.request.topic == "memory" && isBoardReport(flags.request.engine)) {
    TENON_ASSIGN(Json report, readBoardReport(flags.request.engine));
    terminal.json() ? terminal.printJson("explain-memory", std::move(report))
                    : terminal.print(boardMemoryText(report));
    return Status::ok();
  }
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
  std::vector<std::string> topics = explainTopics();
  topics.emplace_back(kSharding);
  addChoice(command, "TOPIC", flags->request.topic, topics, "What to explain")->required();
  command
      .add_option("ENGINE", flags->request.engine,
                  "The engine; for sharding the model, for memory also a folder of --target c")
      ->required();
  command.add_option("NODE", flags->request.node,
                     "A node of the model, or a region; without it, an overview in one screen");
  command.add_flag("--all", flags->all, "Print everything instead of one screen");
  command
      .add_option("--shape", flags->request.shapes,
                  "Sizes of an input for the estimates, name:1x128; the likely ones by default")
      ->allow_extra_args(false);
  command.add_option("--isa,--variant", flags->request.level,
                     "Variant of the engine; this machine's by default");
  std::vector<CLI::Option *> ofSharding = declareShardingFlags(command, *flags);
  return [flags, ofSharding](Terminal &terminal) -> Status {
    TENON_TRY(checkFlags(*flags, ofSharding));
    return explain(*flags, terminal);
  };
}

} // namespace tenon::tool

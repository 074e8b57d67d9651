// `tenon score`: how well a language model foresees a text, and how far it is from another.

#include "generate/session/Score.h"
#include "support/files/MappedFile.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/generate/MeanText.h"
#include "tools/tenon/generate/OpenModel.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <memory>

namespace tenon::tool {
namespace {

using generate::Mean;

struct ScoreFlags {
  OpenRequest open;
  std::string text, against;
  bool noCache = false;
  generate::ScoreOptions options;
};

Status score(ScoreFlags &flags, Terminal &terminal) {
  flags.open.useCache = !flags.noCache;
  TENON_ASSIGN(MappedFile file, MappedFile::open(flags.text));
  TENON_ASSIGN(OpenModel model, OpenModel::open(flags.open, terminal));
  std::optional<OpenModel> reference;
  if (!flags.against.empty()) {
    OpenRequest request = flags.open;
    request.path = flags.against;
    TENON_ASSIGN(reference, OpenModel::open(request, terminal));
  }
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  TENON_ASSIGN(generate::TextScore result,
               generate::scoreText(*model.model, reference ? reference->model.get() : nullptr, text,
                                   flags.options, [&](double share) {
                                     terminal.progress("reading", share);
                                     return true;
                                   }));
  const Mean &surprise = result.surprise;
  double perplexity = std::exp(surprise.value), low = std::exp(surprise.low()),
         high = std::exp(surprise.high());
  if (terminal.json()) {
    Json value = {{"tokens", result.tokens},
                  {"perplexity", {{"value", perplexity}, {"low", low}, {"high", high}}},
                  {"surprise", meanJson(surprise)}};
    if (result.divergence) {
      value["kl_divergence"] = meanJson(*result.divergence);
      value["same_top_token"] = meanJson(*result.sameTop);
    }
    terminal.printJson("score", std::move(value));
    return Status::ok();
  }
  terminal.print(fmt::format("perplexity      {}  over {} tokens, 95 % interval\n",
                             intervalText(perplexity, low, high), result.tokens));
  if (result.divergence) {
    terminal.print(fmt::format("KL divergence   {}  nats a token, from {}\nsame top token  {}\n",
                               meanText(*result.divergence), flags.against,
                               meanText(*result.sameTop)));
  }
  return Status::ok();
}

} // namespace

Action declareScore(CLI::App &command) {
  std::shared_ptr<ScoreFlags> flags = std::make_shared<ScoreFlags>();
  command
      .add_option("MODEL", flags->open.path,
                  "A GGUF file, a Hugging Face folder, or an engine compiled from one")
      ->required();
  command.add_option("--text", flags->text, "The text, a file in UTF-8")->required();
  command.add_option("--against", flags->against,
                     "A second model or engine: measure how far the first one is from it");
  addNumber(
      command, "--window", {2, 1'000'000},
      [flags](uint64_t value) { flags->options.window = static_cast<int64_t>(value); },
      "Tokens that are read together; 512 by default, or what the engine holds");
  addNumber(
      command, "--max-tokens", {2, 1'000'000'000},
      [flags](uint64_t value) { flags->options.maxTokens = static_cast<int64_t>(value); },
      "Read at most N tokens of the text");
  declareThreadsFlag(command, flags->options.threads, "Threads; all usable CPUs by default");
  declareOpenFlags(command, flags->open);
  declareTargetFlags(command, flags->open.target);
  command.add_flag("--no-cache", flags->noCache, "Do not use the compile cache");
  return [flags](Terminal &terminal) { return score(*flags, terminal); };
}

} // namespace tenon::tool

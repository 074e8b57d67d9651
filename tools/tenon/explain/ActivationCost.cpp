// Relies on the records "precision" saying which variants round activations.
#include "tools/tenon/explain/ActivationCost.h"

#include "engine/Reader.h"
#include "generate/session/Score.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "tools/tenon/print/FigureSizes.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/view/EngineGraph.h"

#include <bit>

namespace tenon::tool {
namespace {

/// Tokens of the text that are read at most.
constexpr int64_t kMostTokens = 512;

bool runsHere(const engine::Variant &variant) {
  return variant.architecture == runtime::kHostArchitecture &&
         (variant.features & ~runtime::hostFeatures()) == 0;
}

Result<bool> roundsActivations(const engine::EngineFile &file, const std::string &level) {
  TENON_ASSIGN(std::string suffix, view::recordSuffix(file, level));
  Result<std::string_view> text = file.record("precision" + suffix);
  if (!text) {
    return false;
  }
  for (const Json &row : listAt(parseJson(*text), "approximated")) {
    if (textAt(row, "rule") == "int8-activations") {
      return true;
    }
  }
  return false;
}

/// The best variant of this machine that rounds none; empty for none.
Result<std::string> exactVariant(const engine::EngineFile &file) {
  const engine::Variant *best = nullptr;
  for (const engine::Variant &variant : file.variants()) {
    TENON_ASSIGN(bool rounds, roundsActivations(file, variant.level));
    bool isBetter = !best || std::popcount(variant.features) > std::popcount(best->features);
    best = !rounds && runsHere(variant) && isBetter ? &variant : best;
  }
  return best ? best->level : std::string();
}

Result<std::unique_ptr<generate::LanguageModel>> openVariant(const std::string &engine,
                                                             const std::string &level) {
  tenon_engine_options options = {};
  options.struct_size = sizeof(options);
  options.variant = level.c_str();
  return generate::LanguageModel::open(engine, options);
}

Json meanOf(const generate::Mean &mean) {
  return {{"mean", mean.value}, {"low", mean.low()}, {"high", mean.high()}};
}

} // namespace

Result<Json> activationCost(const ExplainRequest &request) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(request.engine));
  std::string level = request.level.empty() ? variantOfThisMachine(*file) : request.level;
  TENON_ASSIGN(bool rounds, roundsActivations(*file, level));
  bool isUsable = std::ranges::any_of(file->variants(), [&](const engine::Variant &variant) {
    return variant.level == level && runsHere(variant);
  });
  if (!rounds || !isUsable) {
    return Json();
  }
  Result<std::unique_ptr<generate::LanguageModel>> model = openVariant(request.engine, level);
  if (!model) {
    bool isOther = model.status().id() == ErrorId::NotALanguageModel;
    return isOther ? Result<Json>(Json()) : Result<Json>(model.takeStatus());
  }
  TENON_ASSIGN(std::string beside, exactVariant(*file));
  Json cost = {{"variant", level}};
  if (beside.empty()) {
    return cost;
  }
  TENON_ASSIGN(std::unique_ptr<generate::LanguageModel> exact, openVariant(request.engine, beside));
  generate::ScoreOptions options;
  options.maxTokens = kMostTokens;
  TENON_ASSIGN(generate::TextScore score,
               generate::scoreText(**model, exact.get(), generate::ownText(*exact), options,
                                   [](double) { return true; }));
  cost["beside"] = beside;
  cost["tokens"] = score.tokens;
  cost["largest_difference"] = score.largestDifference / score.largestLogit;
  cost["kl_divergence"] = meanOf(*score.divergence);
  cost["same_top_token"] = meanOf(*score.sameTop);
  return cost;
}

} // namespace tenon::tool

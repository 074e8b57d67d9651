// Reads keys. One that is not known may change every number that the model computes, so it is a gap
// unless it is among those that change none.
#include "compiler/frontend/language/Model.h"

#include "support/text/Text.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tenon::language {
namespace {

constexpr int64_t kMostLayers = 1000, kMostSize = int64_t{1} << 24;

/// Keys of an architecture that change no number: the embedding has the size of the vocabulary,
/// scaled positions are scaled whether or not the model was trained with them, and what is scaled
/// by their original number reads it. Keys of other prefixes (general, tokenizer, split, quantize,
/// and what publishers add) are not an architecture's.
constexpr std::string_view kInert[] = {"rope.scaling.finetuned",
                                       "rope.scaling.original_context_length", "tensor_data_layout",
                                       "vocab_size"};

class Reader {
public:
  Reader(Model &model, std::vector<frontend::Gap> &gaps) : model(model), gaps(gaps) {}

  Status read();

private:
  void gap(std::string_view what, std::string why, std::string workaround) {
    gaps.push_back({.opType = model.family ? std::string(model.family->name) : "language model",
                    .domain = "gguf",
                    .node = model.file.nameOf(what),
                    .source = {},
                    .dtype = {},
                    .why = std::move(why),
                    .workaround = std::move(workaround)});
  }
  const gguf::Value *find(std::string_view part) {
    std::string key = strCat(model.family->name, '.', part);
    known.insert(key);
    return model.file.find(key);
  }
  /// A size of at least 1; `otherwise` where the key is missing and that is not 0.
  Result<int64_t> size(std::string_view part, int64_t otherwise = 0, int64_t most = kMostSize);
  Result<double> number(std::string_view part, double otherwise, bool isRequired = false);
  /// Knows a factor that Tenon does not apply, where it is 1; else it stays an unknown key.
  void expectOne(std::string_view part);
  /// Divisors of frequencies; empty where there are none.
  Result<std::vector<float>> factors(std::string_view tensor);
  Status readSizes();
  Status readNumbers();
  Status readRope();
  Status readScaling(Rotation &rotation);
  Status readWindows();
  void findUnknownKeys();
  Status bad(std::string_view what) const {
    return Status::error(ErrorId::LanguageModelBad, std::string(what), model.remedy());
  }

  Model &model;
  std::vector<frontend::Gap> &gaps;
  std::set<std::string, std::less<>> known;
};

Result<int64_t> Reader::size(std::string_view part, int64_t otherwise, int64_t most) {
  const gguf::Value *value = find(part);
  if (!value && otherwise != 0) {
    return otherwise;
  }
  if (!value) {
    return bad(strCat("it has no key '", model.family->name, '.', part, "'"));
  }
  std::optional<int64_t> number = value->integer();
  if (value->list()) {
    gap(strCat(model.family->name, '.', part), "it differs from layer to layer", "");
    return int64_t{1};
  }
  if (!number || *number < 1 || *number > most) {
    return bad(strCat("the key '", model.file.nameOf(strCat(model.family->name, '.', part)),
                      "' is ", value->describe(), " and must be from 1 to ", most));
  }
  return *number;
}

Result<double> Reader::number(std::string_view part, double otherwise, bool isRequired) {
  const gguf::Value *value = find(part);
  std::optional<double> number = value ? value->number() : std::optional<double>();
  if (!value && !isRequired) {
    return otherwise;
  }
  if (!number || !(*number > 0)) {
    return bad(strCat("the key '", model.file.nameOf(strCat(model.family->name, '.', part)),
                      "' is ", value ? value->describe() : "missing",
                      " and must be a number above 0"));
  }
  return *number;
}

Status Reader::readSizes() {
  TENON_ASSIGN(model.layers, size("block_count", 0, kMostLayers));
  TENON_ASSIGN(model.width, size("embedding_length"));
  TENON_ASSIGN(model.inner, size("feed_forward_length"));
  TENON_ASSIGN(model.heads, size("attention.head_count"));
  TENON_ASSIGN(model.keyHeads, size("attention.head_count_kv", model.heads));
  TENON_ASSIGN(model.keyWidth, size("attention.key_length", model.width / model.heads));
  TENON_ASSIGN(model.valueWidth, size("attention.value_length", model.width / model.heads));
  TENON_ASSIGN(model.context, size("context_length"));
  if (model.heads % model.keyHeads != 0) {
    return bad(strCat(model.heads, " heads of queries do not share ", model.keyHeads,
                      " heads of keys evenly"));
  }
  const gguf::Tensor *embedding = model.tensor("token_embd.weight");
  if (!embedding || embedding->dims.size() != 2) {
    return bad(strCat("it has no matrix '", model.file.nameOf("token_embd.weight"), "'"));
  }
  model.vocabulary = embedding->dims[0];
  return Status::ok();
}

Status Reader::readNumbers() {
  const Family &family = *model.family;
  TENON_ASSIGN(model.epsilon, number(family.hasLayerNorm ? "attention.layer_norm_epsilon"
                                                         : "attention.layer_norm_rms_epsilon",
                                     0, /*isRequired=*/true));
  bool isWide = model.layers == family.layersOfWideScale;
  double width = isWide ? static_cast<double>(model.width) / static_cast<double>(model.heads)
                        : static_cast<double>(model.keyWidth);
  TENON_ASSIGN(model.scoreScale, number("attention.scale", 1 / std::sqrt(width)));
  TENON_ASSIGN(model.scoreCap, number("attn_logit_softcapping", family.scoreCap));
  TENON_ASSIGN(model.logitCap, number("final_logit_softcapping", family.logitCap));
  if (family.mayBeParallel) {
    const gguf::Value *value = find("use_parallel_residual");
    model.isParallel = !value || value->truth().value_or(true);
  }
  if (family.scalesEmbedding) {
    // The model's definition rounds the root to the type of the embedding. Blocks are of f32.
    std::string_view type = model.tensor("token_embd.weight")->type->name;
    llvm::APFloat root(std::sqrt(static_cast<double>(model.width)));
    bool isInexact;
    root.convert(type == "F16"    ? llvm::APFloat::IEEEhalf()
                 : type == "BF16" ? llvm::APFloat::BFloat()
                                  : llvm::APFloat::IEEEsingle(),
                 llvm::APFloat::rmNearestTiesToEven, &isInexact);
    model.embeddingScale = root.convertToDouble();
  }
  return Status::ok();
}

void Reader::expectOne(std::string_view part) {
  std::string key = strCat(model.family->name, '.', part);
  const gguf::Value *value = model.file.find(key);
  if (value && value->number() == 1) {
    known.insert(key);
  }
}

Result<std::vector<float>> Reader::factors(std::string_view name) {
  const gguf::Tensor *tensor = model.tensor(name);
  if (!tensor) {
    return std::vector<float>();
  }
  if (tensor->type->name != "F32" || tensor->elements() != model.turned / 2) {
    return bad(strCat("the tensor '", name, "' is not a list of ", model.turned / 2,
                      " numbers of type F32"));
  }
  model.read.insert(std::string(name));
  std::vector<float> all(tensor->elements());
  std::memcpy(all.data(), tensor->bytes.data(), tensor->bytes.size());
  if (!std::ranges::all_of(all, [](float factor) { return factor > 0; })) {
    return bad(strCat("the tensor '", name, "' has a factor that is not above 0"));
  }
  return all;
}

Status Reader::readScaling(Rotation &rotation) {
  const gguf::Value *type = find("rope.scaling.type");
  const gguf::Value *factor = find("rope.scaling.factor");
  // A factor without a type is one of linear scaling.
  std::string_view kind = type ? type->text().value_or("?") : factor ? "linear" : "none";
  TENON_ASSIGN(rotation.factors, factors("rope_freqs.weight"));
  TENON_ASSIGN(std::vector<float> shortFactors, factors("rope_factors_short.weight"));
  TENON_ASSIGN(rotation.longFactors, factors("rope_factors_long.weight"));
  if (shortFactors.empty() != rotation.longFactors.empty() ||
      (kind == "longrope" && shortFactors.empty())) {
    return bad(strCat("it has no tensor 'rope_factors_", shortFactors.empty() ? "short" : "long",
                      ".weight'"));
  }
  bool isLong = !shortFactors.empty(); // also where the type is not written
  if (isLong || kind == "yarn") {
    TENON_ASSIGN(rotation.originalPositions, size("rope.scaling.original_context_length"));
  }
  if (isLong) {
    rotation.factors = std::move(shortFactors);
    double original = static_cast<double>(rotation.originalPositions);
    TENON_ASSIGN(double ratio,
                 number("rope.scaling.factor", static_cast<double>(model.context) / original));
    TENON_ASSIGN(rotation.magnitude,
                 number("rope.scaling.attn_factor",
                        ratio > 1 ? std::sqrt(1 + std::log(ratio) / std::log(original)) : 1));
    return Status::ok();
  }
  expectOne("rope.scaling.attn_factor");
  if (kind == "linear" || kind == "yarn") {
    TENON_ASSIGN(rotation.factor, number("rope.scaling.factor", 1, /*isRequired=*/true));
  } else if (kind != "none") {
    gap(strCat(model.family->name, ".rope.scaling.type"),
        strCat("positions that are scaled (", kind, ") are not supported"), "");
  }
  if (kind == "yarn") {
    rotation.isYarn = true;
    TENON_ASSIGN(rotation.betaFast, number("rope.scaling.yarn_beta_fast", rotation.betaFast));
    TENON_ASSIGN(rotation.betaSlow, number("rope.scaling.yarn_beta_slow", rotation.betaSlow));
    rotation.magnitude = rotation.factor > 1 ? 0.1 * std::log(rotation.factor) + 1 : 1;
    expectOne("rope.scaling.yarn_attn_factor");
    expectOne("rope.scaling.yarn_ext_factor");
  }
  return Status::ok();
}

Status Reader::readRope() {
  const Family &family = *model.family;
  if (model.rope == Rope::None) {
    return Status::ok();
  }
  TENON_ASSIGN(model.turned, size("rope.dimension_count", model.keyWidth));
  if (model.turned > model.keyWidth || model.turned % 2 != 0) {
    return bad(strCat("rotary embeddings turn ", model.turned, " of ", model.keyWidth,
                      " elements of a head"));
  }
  TENON_ASSIGN(model.rotation.base, number("rope.freq_base", family.ropeBase));
  TENON_TRY(readScaling(model.rotation));
  if (family.windowRopeBase != 0) {
    // Only layers that see everything are scaled.
    model.windowRotation.emplace();
    TENON_ASSIGN(model.windowRotation->base, number("rope.freq_base_swa", family.windowRopeBase));
  }
  return Status::ok();
}

Status Reader::readWindows() {
  const Family &family = *model.family;
  model.isWindowed.assign(model.layers, false);
  if (!family.hasWindow) {
    return Status::ok();
  }
  const gguf::Value *window = find("attention.sliding_window");
  int64_t every = family.noWindowEvery;
  if (!window && every != 0) {
    return bad(strCat("it has no key '", family.name, ".attention.sliding_window'"));
  }
  model.window = window ? window->integer().value_or(-1) : 0;
  if (model.window < 0) {
    return bad(strCat("the key '", family.name, ".attention.sliding_window' is ",
                      window->describe(), " and must be a number of positions"));
  }
  const gguf::Value *pattern = every != 0 ? find("attention.sliding_window_pattern") : nullptr;
  const gguf::Value::List *list = pattern ? pattern->list() : nullptr;
  every = pattern ? pattern->integer().value_or(-1) : every;
  if (list ? std::ssize(list->integers) != model.layers : every < 0) {
    return bad(strCat("the key '", family.name, ".attention.sliding_window_pattern' is ",
                      pattern->describe(), " for ", model.layers, " layers"));
  }
  for (int64_t i = 0; model.window > 0 && i < model.layers; ++i) {
    model.isWindowed[i] = list ? list->integers[i] != 0 : every == 0 || (i + 1) % every != 0;
  }
  return Status::ok();
}

void Reader::findUnknownKeys() {
  std::string prefix = strCat(model.family->name, '.');
  for (const auto &[key, value] : model.file.keys) {
    bool isOfFamily = key.starts_with(prefix) && !known.count(key);
    if (isOfFamily && std::ranges::find(kInert, std::string_view(key).substr(prefix.size())) ==
                          std::ranges::end(kInert)) {
      gap(key,
          strCat("the key, ", value.describe(),
                 ", may change what the model computes, but is unknown"),
          "");
    }
  }
}

Status Reader::read() {
  const gguf::Value *architecture = model.file.find("general.architecture");
  std::optional<std::string_view> name =
      architecture ? architecture->text() : std::optional<std::string_view>();
  if (!name) {
    return bad("it has no key 'general.architecture'");
  }
  model.family = familyOf(*name);
  if (!model.family) {
    gap("general.architecture", strCat("models of the family '", *name, "' are not supported"),
        "export the model with torch.export");
    return Status::ok();
  }
  // Converters to GGUF move the rows of queries and keys; a folder has them as they were trained.
  bool isOfFolder = model.folder && model.family->rope == Rope::Pairs;
  model.rope = isOfFolder ? Rope::Halves : model.family->rope;
  TENON_TRY(readSizes());
  TENON_TRY(readNumbers());
  TENON_TRY(readRope());
  TENON_TRY(readWindows());
  findUnknownKeys();
  return Status::ok();
}

} // namespace

Result<Model> readModel(gguf::File file, std::shared_ptr<const Folder> folder,
                        std::vector<frontend::Gap> &gaps) {
  Model model;
  model.file = std::move(file);
  model.folder = std::move(folder);
  TENON_TRY(Reader(model, gaps).read());
  return model;
}

std::string layerTensor(int64_t layer, std::string_view part) {
  return strCat("blk.", layer, '.', part);
}

} // namespace tenon::language

// config.json as keys of GGUF. A key that is not known may change what the model computes, so it is
// a gap; those that change nothing are listed.
//
// One file: a key counts as known by its being read, and all of them are read by one class.
#include "compiler/frontend/language/Folder.h"

#include "compiler/frontend/language/Family.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

namespace tenon::language {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;

/// What a class of transformers has where config.json says nothing, or cannot say.
struct ModelType {
  std::string_view name;   ///< model_type
  std::string_view family; ///< as GGUF has it
  bool isTied = false;
  int64_t headWidth = 0; ///< 0: the width by the heads
  double ropeBase = 10000;
  bool hasProjectionBias = false;
  std::string_view activation = "silu";
  bool addsOneToNorms = false;
  TensorNames names = TensorNames::Llama;
  /// Of the turned part of a head; 1 for all of it.
  double turnedPart = 1;
  /// Each query has its own key.
  bool hasKeyOfEachQuery = false;
  std::string_view layersKey = "num_hidden_layers", widthKey = "hidden_size",
                   innerKey = "intermediate_size", headsKey = "num_attention_heads",
                   contextKey = "max_position_embeddings", epsilonKey = "rms_norm_eps",
                   activationKey = "hidden_act";
};

constexpr ModelType kModelTypes[] = {
    {.name = "llama", .family = "llama"},
    {.name = "mistral", .family = "llama"},
    {.name = "qwen2", .family = "qwen2", .hasProjectionBias = true},
    {.name = "qwen3", .family = "qwen3", .headWidth = 128},
    {.name = "phi3", .family = "phi3"},
    {.name = "gemma2",
     .family = "gemma2",
     .isTied = true,
     .headWidth = 256,
     .activation = "gelu_pytorch_tanh",
     .addsOneToNorms = true},
    {.name = "gemma3_text",
     .family = "gemma3",
     .isTied = true,
     .headWidth = 256,
     .ropeBase = 1e6,
     .activation = "gelu_pytorch_tanh",
     .addsOneToNorms = true},
    {.name = "gpt2",
     .family = "gpt2",
     .isTied = true,
     .activation = "gelu_new",
     .names = TensorNames::Gpt2,
     .hasKeyOfEachQuery = true,
     .layersKey = "n_layer",
     .widthKey = "n_embd",
     .innerKey = "n_inner",
     .headsKey = "n_head",
     .contextKey = "n_positions",
     .epsilonKey = "layer_norm_epsilon",
     .activationKey = "activation_function"},
    {.name = "gpt_neox",
     .family = "gptneox",
     .activation = "gelu",
     .names = TensorNames::GptNeox,
     .turnedPart = 0.25,
     .hasKeyOfEachQuery = true,
     .epsilonKey = "layer_norm_eps"},
    {.name = "smollm3", .family = "smollm3", .isTied = true, .ropeBase = 2e6},
};

/// Keys that say nothing about the logits: of training, of sampling, and of what is written down
/// elsewhere.
constexpr std::string_view kInertSettings[] = {
    "architectures",
    "_name_or_path",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "decoder_start_token_id",
    "use_cache",
    "initializer_range",
    "attention_dropout",
    "hidden_dropout",
    "pretraining_tp",
    "gradient_checkpointing",
    "cache_implementation",
    "embd_pdrop",
    "resid_pdrop",
    "attn_pdrop",
    "classifier_dropout",
    "n_ctx",
    "reorder_and_upcast_attn",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "torchscript",
    "use_bfloat16",
    "chunk_size_feed_forward",
    "is_decoder",
    "id2label",
    "label2id",
    "problem_type",
    "task_specific_params",
    "tokenizer_class",
    "prefix",
    "finetuning_task",
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",

    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "output_scores",
    "return_dict_in_generate",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "is_llama_config",
    "transformers.js_config",
    "unsloth_fixed",
    "unsloth_version",
    "vocab_size",
    "max_window_layers",
};

class ConfigReader {
public:
  ConfigReader(Folder &theFolder, std::vector<frontend::Gap> &theGaps)
      : folder(theFolder), gaps(theGaps) {}

  Result<FolderShape> read();

private:
  void gap(std::string_view key, std::string why, std::string workaround = {}) {
    gaps.push_back({.opType = "config.json",
                    .domain = "huggingface",
                    .node = std::string(key),
                    .source = {},
                    .dtype = {},
                    .why = std::move(why),
                    .workaround = std::move(workaround)});
  }
  static Status bad(std::string_view what) {
    return Status::error(ErrorId::HuggingFaceFolderBad, strCat("config.json: ", what),
                         "download the whole folder again");
  }
  /// Null where the key is missing or null.
  const Json *find(std::string_view key) {
    known.insert(std::string(key));
    auto found = folder.config.find(key);
    return found == folder.config.end() || found->is_null() ? nullptr : &*found;
  }
  void put(std::string_view part, std::string_view key, gguf::Value value) {
    std::string ours = strCat(type->family, '.', part);
    folder.file.names[ours] = key;
    folder.file.keys.insert_or_assign(std::move(ours), std::move(value));
  }
  Result<int64_t> size(std::string_view key, int64_t otherwise = 0);
  Result<double> number(const Json &value, std::string_view key);
  Result<bool> truth(std::string_view key, bool otherwise);
  Status readSizes();
  Status readRope();
  Status readScaling(const Json &rope, const std::string &kind);
  Status putFrequencies(const Json &rope, double theta);
  Status readCaps();
  Status readWindow(int64_t &context);
  Status putWindow(const Json *layers);
  Status readGpt();
  Status readLayers();
  Status readBiases();
  void findUnknownKeys();

  Folder &folder;
  std::vector<frontend::Gap> &gaps;
  const ModelType *type = nullptr;
  FolderShape shape;
  const Family *family = nullptr;
  int64_t headWidth = 0, maxPositions = 0;
  double base = 0;
  std::set<std::string, std::less<>> known{"model_type"};
};

Result<int64_t> ConfigReader::size(std::string_view key, int64_t otherwise) {
  const Json *value = find(key);
  if (!value && otherwise != 0) {
    return otherwise;
  }
  if (!value || !value->is_number_integer() || *value < 1 || *value > kMaxSize) {
    return bad(strCat("'", key, "' is ", value ? dumpJson(*value).substr(0, 40) : "missing",
                      " and must be a whole number from 1 to ", kMaxSize));
  }
  return value->get<int64_t>();
}

Result<double> ConfigReader::number(const Json &value, std::string_view key) {
  if (!value.is_number() || !(value.get<double>() > 0)) {
    return bad(
        strCat("'", key, "' is ", dumpJson(value).substr(0, 40), " and must be a number above 0"));
  }
  return value.get<double>();
}

Result<bool> ConfigReader::truth(std::string_view key, bool otherwise) {
  const Json *value = find(key);
  if (value && !value->is_boolean()) {
    return bad(strCat("'", key, "' is neither true nor false"));
  }
  return value ? value->get<bool>() : otherwise;
}

Status ConfigReader::readSizes() {
  TENON_ASSIGN(shape.layers, size(type->layersKey));
  TENON_ASSIGN(int64_t width, size(type->widthKey));
  bool isGpt2 = type->names == TensorNames::Gpt2;
  TENON_ASSIGN(int64_t inner, size(type->innerKey, isGpt2 ? 4 * width : 0));
  TENON_ASSIGN(shape.heads, size(type->headsKey));
  int64_t heads = shape.heads, keyHeads = heads;
  headWidth = std::max<int64_t>(width / heads, 1);
  if (!type->hasKeyOfEachQuery) {
    // Every class but Llama's has a number of its own for this.
    TENON_ASSIGN(keyHeads, size("num_key_value_heads", type->name == "llama" ? heads : 0));
    TENON_ASSIGN(headWidth, size("head_dim", type->headWidth ? type->headWidth : headWidth));
  }
  TENON_ASSIGN(int64_t context, size(type->contextKey));
  maxPositions = context;
  TENON_TRY(readWindow(context));
  const Json *epsilon = find(type->epsilonKey);
  TENON_ASSIGN(double small, number(epsilon ? *epsilon : Json(family->hasLayerNorm ? 1e-5 : 1e-6),
                                    type->epsilonKey));
  auto putSize = [&](std::string_view part, std::string_view key, int64_t value) {
    put(part, key, gguf::Value(static_cast<uint64_t>(value)));
  };
  putSize("block_count", type->layersKey, shape.layers);
  putSize("embedding_length", type->widthKey, width);
  putSize("feed_forward_length", type->innerKey, inner);
  putSize("attention.head_count", type->headsKey, heads);
  putSize("attention.head_count_kv", "num_key_value_heads", keyHeads);
  putSize("attention.key_length", "head_dim", headWidth);
  putSize("attention.value_length", "head_dim", headWidth);
  putSize("context_length", type->contextKey, context);
  put(family->hasLayerNorm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
      type->epsilonKey, gguf::Value(small));
  return Status::ok();
}

/// A window as long as the context changes nothing, so the context of a model with a window ends
/// where the window does.
Status ConfigReader::readWindow(int64_t &context) {
  const Json *window = find("sliding_window"), *layers = find("layer_types");
  TENON_ASSIGN(bool isUsed, truth("use_sliding_window", type->name == "mistral"));
  for (const Json &layer : layers && layers->is_array() ? *layers : Json::array()) {
    if (layer == "sliding_attention") {
      isUsed = true;
    } else if (layer != "full_attention") {
      gap("layer_types", strCat("layers of the type ", dumpJson(layer), " are not supported"));
    }
  }
  if (family->hasWindow) {
    return putWindow(layers);
  }
  if (window && isUsed) {
    TENON_ASSIGN(int64_t length, size("sliding_window"));
    context = std::min(context, length);
  }
  return Status::ok();
}

/// Of families whose layers have windows.
Status ConfigReader::putWindow(const Json *layers) {
  if (find("sliding_window")) {
    TENON_ASSIGN(int64_t length, size("sliding_window"));
    put("attention.sliding_window", "sliding_window", gguf::Value(static_cast<uint64_t>(length)));
  }
  const Json *newer = find("_sliding_window_pattern"), *older = find("sliding_window_pattern");
  std::string_view key = newer ? "_sliding_window_pattern" : "sliding_window_pattern";
  if (family->noWindowEvery != 0 && layers && layers->is_array()) {
    gguf::Value::List list;
    for (const Json &layer : *layers) {
      list.integers.push_back(layer == "sliding_attention" ? 1 : 0);
    }
    put("attention.sliding_window_pattern", "layer_types",
        gguf::Value(std::make_shared<const gguf::Value::List>(std::move(list))));
  } else if (family->noWindowEvery != 0 && (newer || older)) {
    TENON_ASSIGN(int64_t every, size(key));
    put("attention.sliding_window_pattern", key, gguf::Value(static_cast<uint64_t>(every)));
  }
  return Status::ok();
}

/// What scores are scaled by, and what scores and logits stay below.
Status ConfigReader::readCaps() {
  if (const Json *scalar = find("query_pre_attn_scalar")) {
    TENON_ASSIGN(double value, number(*scalar, "query_pre_attn_scalar"));
    put("attention.scale", "query_pre_attn_scalar", gguf::Value(1 / std::sqrt(value)));
  }
  for (auto [key, part, usual] :
       {std::tuple("attn_logit_softcapping", "attn_logit_softcapping", family->scoreCap),
        {"final_logit_softcapping", "final_logit_softcapping", family->logitCap}}) {
    const Json *cap = find(key);
    if (cap) {
      TENON_ASSIGN(double value, number(*cap, key));
      put(part, key, gguf::Value(value));
    } else if (usual != 0 && folder.config.contains(key)) {
      gap(key, strCat("a model of the family ", type->name, " without it is not supported"));
    }
  }
  if (const Json *both = find("use_bidirectional_attention"); both && *both != false) {
    gap("use_bidirectional_attention", "attention to later tokens is not supported");
  }
  return Status::ok();
}

/// The frequencies of Llama 3: those of long waves are divided, and between the two borders some.
Status ConfigReader::putFrequencies(const Json &rope, double original) {
  double values[3];
  const char *keys[] = {"factor", "low_freq_factor", "high_freq_factor"};
  for (size_t i = 0; i < 3; ++i) {
    auto found = rope.find(keys[i]);
    TENON_ASSIGN(values[i], number(found == rope.end() ? Json() : *found, keys[i]));
  }
  auto [factor, low, high] = values;
  std::vector<float> divisors;
  for (int64_t pair = 0; pair < headWidth / 2; ++pair) {
    double frequency =
        std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(headWidth));
    double waves = original * frequency / (2 * std::numbers::pi);
    double kept = std::clamp((waves - low) / (high - low), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / (kept + (1 - kept) / factor)));
  }
  folder.put("rope_freqs.weight", std::move(divisors));
  return Status::ok();
}

/// Positions that are scaled, by the names of `rope_type`.
Status ConfigReader::readScaling(const Json &rope, const std::string &kind) {
  constexpr std::string_view kKnown[] = {"rope_type",        "type",
                                         "rope_theta",       "partial_rotary_factor",
                                         "factor",           "low_freq_factor",
                                         "high_freq_factor", "original_max_position_embeddings",
                                         "beta_fast",        "beta_slow",
                                         "short_factor",     "long_factor",
                                         "attention_factor"};
  for (const auto &[key, value] : rope.items()) {
    if (std::ranges::find(kKnown, std::string_view(key)) == std::end(kKnown) && !value.is_null()) {
      gap(strCat("rope_parameters.", key),
          "the key may change what the model computes, but is unknown");
    }
  }
  auto found = [&](const char *key) {
    auto member = rope.find(key);
    return member == rope.end() || member->is_null() ? nullptr : &*member;
  };
  const Json *inside = found("original_max_position_embeddings"),
             *outside = find("original_max_position_embeddings");
  TENON_ASSIGN(double original, number(inside    ? *inside
                                       : outside ? *outside
                                                 : Json(maxPositions),
                                       "original_max_position_embeddings"));
  if (original < 1 || original > static_cast<double>(kMaxSize)) {
    return bad(strCat("'original_max_position_embeddings' must be from 1 to ", kMaxSize));
  }
  if (kind == "llama3") {
    return putFrequencies(rope, original);
  }
  put("rope.scaling.type", "rope_type",
      gguf::Value(std::string_view(folder.texts.emplace_back(kind == "su" ? "longrope" : kind))));
  put("rope.scaling.original_context_length", "original_max_position_embeddings",
      gguf::Value(static_cast<uint64_t>(original)));
  double magnitude = 0;
  if (const Json *value = found("attention_factor")) {
    TENON_ASSIGN(magnitude, number(*value, "attention_factor"));
  }
  if (kind == "longrope" || kind == "su") {
    if (magnitude != 0) {
      put("rope.scaling.attn_factor", "attention_factor", gguf::Value(magnitude));
    }
    for (auto [key, tensor] : {std::pair("short_factor", "rope_factors_short.weight"),
                               {"long_factor", "rope_factors_long.weight"}}) {
      const Json *list = found(key);
      std::vector<float> values;
      for (const Json &each : list && list->is_array() ? *list : Json::array()) {
        TENON_ASSIGN(double value, number(each, key));
        values.push_back(static_cast<float>(value));
      }
      folder.file.names[tensor] = key;
      folder.put(tensor, std::move(values));
    }
    return Status::ok();
  }
  const Json *factor = found("factor");
  TENON_ASSIGN(double divisor, number(factor ? *factor : Json(), "factor"));
  put("rope.scaling.factor", "factor", gguf::Value(divisor));
  bool isYarn = kind == "yarn";
  for (auto [key, part] : {std::pair("beta_fast", "rope.scaling.yarn_beta_fast"),
                           {"beta_slow", "rope.scaling.yarn_beta_slow"}}) {
    if (const Json *beta = isYarn ? found(key) : nullptr) {
      TENON_ASSIGN(double value, number(*beta, key));
      put(part, key, gguf::Value(value));
    }
  }
  double usual = isYarn && divisor > 1 ? 0.1 * std::log(divisor) + 1 : 1;
  if (magnitude != 0 && std::abs(magnitude - usual) > 1e-6) {
    gap("rope_parameters.attention_factor",
        "one that does not follow from the factor is not supported");
  }
  return Status::ok();
}

Status ConfigReader::readRope() {
  if (family->rope == Rope::None) {
    return Status::ok();
  }
  bool isGptNeox = type->names == TensorNames::GptNeox;
  const Json *newer = find("rope_parameters"), *older = find("rope_scaling"),
             *theta = find(isGptNeox ? "rotary_emb_base" : "rope_theta"),
             *part = find(isGptNeox ? "rotary_pct" : "partial_rotary_factor"),
             *ofWindow = find("rope_local_base_freq");
  const Json *rope = newer ? newer : older;
  known.emplace("original_max_position_embeddings"); // says nothing where nothing is scaled
  static const Json kNone = Json::object();
  std::string kind = "default";
  if (rope && !rope->is_object()) {
    return bad("the parameters of rotary embeddings are not an object");
  }
  if (family->windowRopeBase != 0 && newer) {
    const Json *all = nullptr;
    for (const auto &[key, value] : newer->items()) {
      all = key == "full_attention" ? &value : all;
      auto found = key == "sliding_attention" ? value.find("rope_theta") : value.end();
      ofWindow = value.is_object() && found != value.end() ? &*found : ofWindow;
    }
    rope = all && all->is_object() ? all : rope;
  }
  for (const auto &[key, value] : rope ? rope->items() : kNone.items()) {
    if ((key == "rope_type" || key == "type") && value.is_string()) {
      kind = value.get<std::string>();
    } else if (key == "rope_theta") {
      theta = &value;
    } else if (key == "partial_rotary_factor") {
      part = &value;
    } else if (value.is_object()) {
      gap(strCat("rope_parameters.", key),
          "positions that differ from layer to layer are not supported");
    }
  }
  TENON_ASSIGN(base, number(theta ? *theta : Json(type->ropeBase), "rope_theta"));
  put("rope.freq_base", "rope_theta", gguf::Value(base));
  if (ofWindow) {
    TENON_ASSIGN(double value, number(*ofWindow, "rope_local_base_freq"));
    put("rope.freq_base_swa", "rope_local_base_freq", gguf::Value(value));
  }
  if (part || type->turnedPart != 1) {
    TENON_ASSIGN(double factor,
                 number(part ? *part : Json(type->turnedPart), "partial_rotary_factor"));
    put("rope.dimension_count", "partial_rotary_factor",
        gguf::Value(static_cast<uint64_t>(static_cast<double>(headWidth) * std::min(factor, 1.0))));
  }
  return kind == "default" ? Status::ok() : readScaling(*rope, kind);
}

/// What models of the GPT kinds may have otherwise.
Status ConfigReader::readGpt() {
  struct Expected {
    TensorNames names;
    std::string_view key;
    bool value;
  };
  constexpr Expected kExpected[] = {
      {TensorNames::Gpt2, "scale_attn_weights", true},
      {TensorNames::Gpt2, "scale_attn_by_inverse_layer_idx", false},
      {TensorNames::Gpt2, "add_cross_attention", false},
  };
  for (auto [names, key, value] : kExpected) {
    bool isAsked = names == type->names;
    TENON_ASSIGN(bool found, isAsked ? truth(key, value) : Result<bool>(value));
    if (found != value) {
      gap(key, strCat("a model of the family ", type->name, found ? " with" : " without",
                      " it is not supported"));
    }
  }
  if (type->names == TensorNames::GptNeox) {
    TENON_ASSIGN(bool isParallel, truth("use_parallel_residual", true));
    put("use_parallel_residual", "use_parallel_residual", gguf::Value(isParallel));
  }
  return Status::ok();
}

/// Families that leave rotary embeddings out of some layers do so at the layers of the family.
Status ConfigReader::readLayers() {
  const Json *list = find("no_rope_layers"), *interval = find("no_rope_layer_interval");
  int64_t every = family->noRopeEvery;
  auto turns = [&](size_t layer) { return every == 0 || (layer + 1) % every != 0; };
  bool isUsual = !list || (list->is_array() && list->size() == static_cast<size_t>(shape.layers));
  for (size_t i = 0; isUsual && list && i < list->size(); ++i) {
    isUsual = (*list)[i] == (turns(i) ? 1 : 0);
  }
  if (!isUsual || (!list && interval && *interval != every)) {
    gap(list ? "no_rope_layers" : "no_rope_layer_interval",
        strCat("rotary embeddings are left out at other layers than every ", every, "th"));
  }
  return Status::ok();
}

Status ConfigReader::readBiases() {
  bool isGpt = type->names != TensorNames::Llama;
  TENON_ASSIGN(bool ofAttention, truth("attention_bias", isGpt));
  TENON_ASSIGN(bool ofFeedForward, truth("mlp_bias", isGpt));
  TENON_ASSIGN(shape.isTied, truth("tie_word_embeddings", type->isTied));
  if (isGpt) {
    shape.biases = {"attn_norm", "ffn_norm"};
  }
  if (isGpt && ofAttention) {
    shape.biases.push_back("attn_qkv");
  }
  if (ofAttention || type->hasProjectionBias) {
    shape.biases.insert(shape.biases.end(), {"attn_q", "attn_k", "attn_v"});
  }
  if (ofAttention) {
    shape.biases.push_back("attn_output");
  }
  if (ofFeedForward) {
    shape.biases.insert(shape.biases.end(), {"ffn_gate", "ffn_up", "ffn_down"});
  }
  const Json *newer = find("hidden_activation"), *older = find(type->activationKey);
  const Json *activation = newer ? newer : older;
  if (activation && *activation != type->activation) {
    gap(newer ? "hidden_activation" : type->activationKey,
        strCat("the activation ", dumpJson(*activation), " is not supported"));
  }
  if (const Json *pairs = find("rope_interleaved"); pairs && *pairs != false) {
    gap("rope_interleaved", "rotary embeddings of pairs are not supported");
  }
  return Status::ok();
}

void ConfigReader::findUnknownKeys() {
  for (auto &[key, value] : folder.config.items()) {
    bool isInert = std::ranges::find(kInertSettings, std::string_view(key)) !=
                   std::ranges::end(kInertSettings);
    if (known.count(key) || isInert || value.is_null()) {
      continue;
    }
    bool isQuantized = key == "quantization_config" || key == "compression_config";
    gap(key,
        isQuantized ? std::string("quantized weights of a folder are not supported")
                    : strCat("the key, ", dumpJson(value).substr(0, 40),
                             ", may change what the model computes, but is unknown"),
        isQuantized ? "use the model's own weights, or a GGUF file" : "");
  }
}

Result<FolderShape> ConfigReader::read() {
  auto name = folder.config.find("model_type");
  if (name == folder.config.end() || !name->is_string()) {
    return bad("it has no model_type");
  }
  const std::string &text = folder.texts.emplace_back(name->get<std::string>());
  folder.file.names["general.architecture"] = "model_type";
  for (const ModelType &each : kModelTypes) {
    type = each.name == text ? &each : type;
  }
  folder.file.keys.emplace("general.architecture",
                           gguf::Value(type ? type->family : std::string_view(text)));
  if (!type) {
    return shape; // the model's reader says so
  }
  family = familyOf(type->family);
  shape.names = type->names;
  shape.normalizesResults = family->normalizesResults;
  shape.addsOneToNorms = type->addsOneToNorms;
  TENON_TRY(readSizes());
  TENON_TRY(readRope());
  TENON_TRY(readCaps());
  TENON_TRY(readGpt());
  TENON_TRY(readLayers());
  TENON_TRY(readBiases());
  findUnknownKeys();
  return shape;
}

} // namespace

Result<FolderShape> readConfig(Folder &folder, std::vector<frontend::Gap> &gaps) {
  return ConfigReader(folder, gaps).read();
}

} // namespace tenon::language

// config.json as keys of GGUF. A key that is not known may change what the model computes, so it is
// a gap; those that change nothing are listed.
#include "compiler/frontend/language/Folder.h"

#include "compiler/frontend/language/Family.h"
#include "support/text/Text.h"

#include <algorithm>
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
};

constexpr ModelType kModelTypes[] = {
    {.name = "llama", .family = "llama"},
    {.name = "mistral", .family = "llama"},
    {.name = "qwen2", .family = "qwen2", .hasProjectionBias = true},
    {.name = "qwen3", .family = "qwen3", .headWidth = 128},
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
  Status readWindow(int64_t &context);
  Status readLayers();
  Status readBiases();
  void findUnknownKeys();

  Folder &folder;
  std::vector<frontend::Gap> &gaps;
  const ModelType *type = nullptr;
  FolderShape shape;
  int64_t headWidth = 0;
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
  TENON_ASSIGN(shape.layers, size("num_hidden_layers"));
  TENON_ASSIGN(int64_t width, size("hidden_size"));
  TENON_ASSIGN(int64_t inner, size("intermediate_size"));
  TENON_ASSIGN(int64_t heads, size("num_attention_heads"));
  // Every class but Llama's has a number of its own for this.
  TENON_ASSIGN(int64_t keyHeads, size("num_key_value_heads", type->name == "llama" ? heads : 0));
  TENON_ASSIGN(headWidth, size("head_dim", type->headWidth ? type->headWidth
                                                           : std::max<int64_t>(width / heads, 1)));
  TENON_ASSIGN(int64_t context, size("max_position_embeddings"));
  TENON_TRY(readWindow(context));
  const Json *epsilon = find("rms_norm_eps");
  TENON_ASSIGN(double small, number(epsilon ? *epsilon : Json(1e-6), "rms_norm_eps"));
  auto putSize = [&](std::string_view part, std::string_view key, int64_t value) {
    put(part, key, gguf::Value(static_cast<uint64_t>(value)));
  };
  putSize("block_count", "num_hidden_layers", shape.layers);
  putSize("embedding_length", "hidden_size", width);
  putSize("feed_forward_length", "intermediate_size", inner);
  putSize("attention.head_count", "num_attention_heads", heads);
  putSize("attention.head_count_kv", "num_key_value_heads", keyHeads);
  putSize("attention.key_length", "head_dim", headWidth);
  putSize("attention.value_length", "head_dim", headWidth);
  putSize("context_length", "max_position_embeddings", context);
  put("attention.layer_norm_rms_epsilon", "rms_norm_eps", gguf::Value(small));
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
  if (window && isUsed) {
    TENON_ASSIGN(int64_t length, size("sliding_window"));
    context = std::min(context, length);
  }
  return Status::ok();
}

Status ConfigReader::readRope() {
  const Json *newer = find("rope_parameters"), *older = find("rope_scaling"),
             *base = find("rope_theta"), *part = find("partial_rotary_factor");
  const Json *rope = newer ? newer : older;
  static const Json kNone = Json::object();
  std::string kind = "default";
  if (rope && !rope->is_object()) {
    return bad("the parameters of rotary embeddings are not an object");
  }
  std::string_view name = newer ? "rope_parameters" : "rope_scaling";
  for (const auto &[key, value] : rope ? rope->items() : kNone.items()) {
    if ((key == "rope_type" || key == "type") && value.is_string()) {
      kind = value.get<std::string>();
    } else if (key == "rope_theta") {
      base = &value;
    } else if (key == "partial_rotary_factor") {
      part = &value;
    } else if (value.is_object()) {
      gap(strCat("rope_parameters.", key),
          "positions that differ from layer to layer are not supported");
    }
  }
  TENON_ASSIGN(double theta, number(base ? *base : Json(type->ropeBase), "rope_theta"));
  put("rope.freq_base", "rope_theta", gguf::Value(theta));
  if (part) {
    TENON_ASSIGN(double factor, number(*part, "partial_rotary_factor"));
    put("rope.dimension_count", "partial_rotary_factor",
        gguf::Value(static_cast<uint64_t>(static_cast<double>(headWidth) * std::min(factor, 1.0))));
  }
  if (kind != "default") {
    gap(name, strCat("positions that are scaled (", kind, ") are not supported"));
  }
  return Status::ok();
}

/// Families that leave rotary embeddings out of some layers do so at the layers of the family.
Status ConfigReader::readLayers() {
  const Json *list = find("no_rope_layers"), *interval = find("no_rope_layer_interval");
  const Family *family = familyOf(type->family);
  int64_t every = family ? family->noRopeEvery : 0;
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
  TENON_ASSIGN(bool ofAttention, truth("attention_bias", false));
  TENON_ASSIGN(bool ofFeedForward, truth("mlp_bias", false));
  TENON_ASSIGN(shape.isTied, truth("tie_word_embeddings", type->isTied));
  if (ofAttention || type->hasProjectionBias) {
    shape.biases = {"attn_q", "attn_k", "attn_v"};
  }
  if (ofAttention) {
    shape.biases.push_back("attn_output");
  }
  if (ofFeedForward) {
    shape.biases.insert(shape.biases.end(), {"ffn_gate", "ffn_up", "ffn_down"});
  }
  if (const Json *activation = find("hidden_act"); activation && *activation != "silu") {
    gap("hidden_act", strCat("the activation ", dumpJson(*activation), " is not supported"));
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
  TENON_TRY(readSizes());
  TENON_TRY(readRope());
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

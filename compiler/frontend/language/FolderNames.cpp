// Gives the tensors of a folder the names and the rows that GGUF has for them.
#include "compiler/frontend/language/Folder.h"
#include "compiler/frontend/language/Model.h"
#include "compiler/frontend/weights/Encode.h"
#include "support/text/Text.h"

#include <algorithm>
#include <span>

namespace tenon::language {
namespace {

struct NamePair {
  std::string_view theirs, ours;
};
constexpr NamePair kLlama[] = {{"model.embed_tokens.weight", "token_embd.weight"},
                               {"model.norm.weight", "output_norm.weight"},
                               {"lm_head.weight", "output.weight"}};
constexpr NamePair kGpt2[] = {{"transformer.wte.weight", "token_embd.weight"},
                              {"transformer.wpe.weight", "position_embd.weight"},
                              {"transformer.ln_f.weight", "output_norm.weight"},
                              {"transformer.ln_f.bias", "output_norm.bias"},
                              {"lm_head.weight", "output.weight"}};
constexpr NamePair kGptNeox[] = {{"gpt_neox.embed_in.weight", "token_embd.weight"},
                                 {"gpt_neox.final_layer_norm.weight", "output_norm.weight"},
                                 {"gpt_neox.final_layer_norm.bias", "output_norm.bias"},
                                 {"embed_out.weight", "output.weight"}};
/// Behind the number of a layer, without ".weight" and ".bias".
constexpr NamePair kLayerOfGpt2[] = {
    {"ln_1", "attn_norm"}, {"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},  {"mlp.c_fc", "ffn_up"},      {"mlp.c_proj", "ffn_down"},
};
constexpr NamePair kLayerOfGptNeox[] = {
    {"input_layernorm", "attn_norm"},   {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.dense_h_to_4h", "ffn_up"},    {"mlp.dense_4h_to_h", "ffn_down"},
};
constexpr NamePair kLayerOfLlama[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

/// What a class of transformers calls its tensors.
struct Naming {
  std::span<const NamePair> outside, ofLayer;
  std::string_view layers; ///< before the number of a layer
};

Naming namingOf(TensorNames names) {
  switch (names) {
  case TensorNames::Gpt2:
    return {kGpt2, kLayerOfGpt2, "transformer.h."};
  case TensorNames::GptNeox:
    return {kGptNeox, kLayerOfGptNeox, "gpt_neox.layers."};
  case TensorNames::Llama:
    break;
  }
  return {kLlama, kLayerOfLlama, "model.layers."};
}

std::vector<float> floatsOf(const gguf::Tensor &tensor) {
  std::vector<float> values(tensor.elements());
  weights::decode(*tensor.type, tensor.bytes.data(), values);
  return values;
}

Status badTensors(std::string_view what) {
  return Status::error(ErrorId::HuggingFaceFolderBad, std::string(what),
                       "download the whole folder again");
}

/// Gives tensors their names of GGUF. What has none keeps its own, so that the model's reader finds
/// that nothing reads it.
class Renamer {
public:
  Renamer(Folder &theFolder, const FolderShape &theShape)
      : folder(theFolder), shape(theShape), naming(namingOf(theShape.names)) {}

  Status run() {
    if (shape.names == TensorNames::Gpt2) {
      addPrefixes();
    }
    for (const NamePair &pair : naming.outside) {
      rename(std::string(pair.theirs), std::string(pair.ours));
    }
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      for (const NamePair &pair : naming.ofLayer) {
        TENON_TRY(renamePart(layer, pair));
      }
    }
    if (shape.addsOneToNorms) {
      addOneToNorms();
    }
    // Older files hold what follows from config.json: frequencies of rotary embeddings, masks.
    bool isGpt = shape.names != TensorNames::Llama;
    std::erase_if(folder.file.tensors, [&](const auto &each) {
      return each.first.ends_with(".rotary_emb.inv_freq") ||
             (isGpt &&
              (each.first.ends_with(".attn.bias") || each.first.ends_with(".attention.bias") ||
               each.first.ends_with(".masked_bias")));
    });
    return checkOutput();
  }

private:
  bool rename(const std::string &theirs, const std::string &ours) {
    if (folder.file.tensors.count(ours)) {
      return false; // two of theirs would be one of ours
    }
    auto tensor = folder.file.tensors.extract(theirs);
    if (tensor.empty()) {
      folder.file.names.emplace(ours, theirs);
      return false;
    }
    folder.file.names[ours] = theirs;
    tensor.key() = ours;
    return folder.file.tensors.insert(std::move(tensor)).inserted;
  }

  Status renamePart(int64_t layer, const NamePair &pair) {
    std::string theirs = strCat(naming.layers, layer, '.', pair.theirs);
    bool isAfter = shape.normalizesResults && pair.theirs == "post_attention_layernorm";
    rename(strCat(theirs, ".weight"), layerTensor(layer, isAfter ? "post_attention_norm.weight"
                                                                 : strCat(pair.ours, ".weight")));
    bool hasBias = std::ranges::find(shape.biases, pair.ours) != shape.biases.end();
    std::string bias = layerTensor(layer, strCat(pair.ours, ".bias"));
    if (hasBias && !rename(strCat(theirs, ".bias"), bias) && !folder.file.tensor(bias)) {
      return badTensors(
          strCat("config.json asks for biases, and there is no tensor '", theirs, ".bias'"));
    }
    return place(layer, pair.ours);
  }

  /// The base model alone has its tensors without a prefix.
  void addPrefixes() {
    std::vector<std::string> without;
    for (const auto &[name, tensor] : folder.file.tensors) {
      if (name.starts_with("h.") || name.starts_with("wte.") || name.starts_with("wpe.") ||
          name.starts_with("ln_f.")) {
        without.push_back(name);
      }
    }
    for (const std::string &name : without) {
      auto tensor = folder.file.tensors.extract(name);
      tensor.key() = strCat("transformer.", name);
      folder.file.tensors.insert(std::move(tensor));
    }
  }

  /// Says how matrices lie that are laid otherwise than GGUF has them.
  Status place(int64_t layer, std::string_view part) {
    auto found = folder.file.tensors.find(layerTensor(layer, strCat(part, ".weight")));
    bool isHeads = shape.names == TensorNames::GptNeox && part == "attn_qkv";
    bool isColumns = shape.names == TensorNames::Gpt2 && !part.ends_with("norm");
    if (found == folder.file.tensors.end() || (!isHeads && !isColumns)) {
      return Status::ok();
    }
    gguf::Tensor &matrix = found->second;
    if (matrix.dims.size() != 2 || (isHeads && matrix.dims[0] % (3 * shape.heads) != 0)) {
      return badTensors(strCat("the tensor '", folder.file.nameOf(found->first),
                               "' cannot be cut into ", shape.heads, " heads"));
    }
    if (isColumns) {
      std::swap(matrix.dims[0], matrix.dims[1]);
    }
    matrix.lying = isColumns ? weights::Lying::Columns : weights::Lying::Heads;
    matrix.wholeRows = matrix.dims[0];
    matrix.headWidth = matrix.dims[0] / (3 * shape.heads);
    std::string bias = layerTensor(layer, strCat(part, ".bias"));
    const gguf::Tensor *ofHeads = isHeads ? folder.file.tensor(bias) : nullptr;
    if (ofHeads && ofHeads->elements() == matrix.dims[0]) {
      std::vector<float> theirs = floatsOf(*ofHeads), ours;
      for (int64_t kind = 0; kind < 3; ++kind) {
        for (int64_t head = 0; head < shape.heads; ++head) {
          auto first = theirs.begin() + (head * 3 + kind) * matrix.headWidth;
          ours.insert(ours.end(), first, first + matrix.headWidth);
        }
      }
      folder.put(bias, std::move(ours));
    }
    return Status::ok();
  }

  void addOneToNorms() {
    for (auto &[name, tensor] : folder.file.tensors) {
      if (!name.ends_with("norm.weight")) {
        continue;
      }
      std::vector<float> values = floatsOf(tensor);
      for (float &value : values) {
        value += 1;
      }
      folder.put(name, std::move(values));
    }
  }

  Status checkOutput() {
    const gguf::Tensor *output = folder.file.tensor("output.weight");
    const gguf::Tensor *embedding = folder.file.tensor("token_embd.weight");
    if (!shape.isTied && !output) {
      return badTensors(strCat("there is no tensor '", folder.file.nameOf("output.weight"),
                               "', and config.json does not tie it to the embedding"));
    }
    if (shape.isTied && output && embedding) {
      if (!std::ranges::equal(output->bytes, embedding->bytes)) {
        return badTensors(strCat("config.json ties '", folder.file.nameOf("output.weight"),
                                 "' to the embedding, and the two differ"));
      }
      folder.file.tensors.erase("output.weight");
    }
    return Status::ok();
  }

  Folder &folder;
  const FolderShape &shape;
  Naming naming;
};

} // namespace

void Folder::put(std::string_view name, std::vector<float> values) {
  const std::vector<float> &kept = numbers.emplace_back(std::move(values));
  gguf::Tensor &tensor = file.tensors[std::string(name)];
  tensor.name = tensor.name.empty() ? std::string(name) : tensor.name;
  tensor.dims = {std::ssize(kept)};
  tensor.type = weights::blockType(0);
  tensor.bytes = std::as_bytes(std::span(kept));
}

Status nameTensors(Folder &folder, const FolderShape &shape) {
  return Renamer(folder, shape).run();
}

} // namespace tenon::language

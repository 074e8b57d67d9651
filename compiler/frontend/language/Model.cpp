// Reads keys. One that is not known may change every number that the model computes, so it is a gap
// unless it is among those that change none.
#include "compiler/frontend/language/Model.h"

#include "support/text/Text.h"

#include <algorithm>
#include <array>

namespace tenon::language {
namespace {

constexpr int64_t kMostLayers = 1000, kMostSize = int64_t{1} << 24;

/// Keys of an architecture that say nothing about its numbers.
constexpr std::string_view kInert[] = {"vocab_size"};

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
  Status readSizes();
  Status readRope();
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
  TENON_ASSIGN(model.epsilon, number("attention.layer_norm_rms_epsilon", 0, /*isRequired=*/true));
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

Status Reader::readRope() {
  TENON_ASSIGN(model.turned, size("rope.dimension_count", model.keyWidth));
  TENON_ASSIGN(model.ropeBase, number("rope.freq_base", 10000));
  if (model.turned > model.keyWidth || model.turned % 2 != 0) {
    return bad(strCat("rotary embeddings turn ", model.turned, " of ", model.keyWidth,
                      " elements of a head"));
  }
  const gguf::Value *scaling = find("rope.scaling.type");
  std::string_view kind = scaling ? scaling->text().value_or("?") : "none";
  if (kind != "none") {
    gap(strCat(model.family->name, ".rope.scaling.type"),
        strCat("positions that are scaled (", kind, ") are not supported"), "");
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
  model.rope = model.folder ? Rope::Halves : model.family->rope;
  TENON_TRY(readSizes());
  TENON_TRY(readRope());
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

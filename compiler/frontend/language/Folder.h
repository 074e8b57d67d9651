// A Hugging Face folder as the GGUF file that a converter would make of it: its config.json as
// keys, its safetensors under the names that GGUF has for them. So all that reads language models
// reads one kind of file. Relies on the folder's files staying mapped.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/frontend/weights/gguf/Gguf.h"
#include "generate/tokenizer/Vocabulary.h"
#include "support/files/MappedFile.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::language {

struct Folder {
  gguf::File file;
  Json config, generationConfig, tokenizerConfig; ///< objects, empty without a file
  Json tokenizer;                                 ///< of tokenizer.json, null without one
  std::optional<std::string> templateFile;        ///< chat_template.jinja
  bool isReadable = true;                         ///< all tensors are of types that are read
  bool hasOtherTokenizer = false;                 ///< tokenizer.model or vocab.json
  std::deque<std::string> texts;                  ///< behind the values of keys
  std::deque<std::vector<float>> numbers;         ///< behind tensors that no file has
  std::vector<std::shared_ptr<MappedFile>> shards;

  /// Adds a tensor of a name of GGUF.
  void put(std::string_view name, std::vector<float> values);
};

/// The paths of all files that the model is read from: those that its engine follows from. TN0253
/// where the folder is none of a model.
Result<std::vector<std::string>> filesOfFolder(const std::string &path);

/// What the model needs and Tenon lacks goes to `gaps`. TN0252 for damaged weights, TN0253 where
/// the folder contradicts itself.
Result<std::shared_ptr<Folder>> openFolder(const std::string &path,
                                           std::vector<frontend::Gap> &gaps);

/// Makes keys of config.json, and says which biases and whether an output matrix of its own the
/// weights must have.
enum class TensorNames : uint8_t { Llama, Gpt2, GptNeox };
struct FolderShape {
  TensorNames names = TensorNames::Llama;
  int64_t layers = 0, heads = 0;
  bool isTied = false;
  bool normalizesResults = false;       ///< norms behind attention and feed-forward too
  bool addsOneToNorms = false;          ///< a norm multiplies by 1 more than its weight
  std::vector<std::string_view> biases; ///< parts of a layer that have one, as GGUF names them
};
Result<FolderShape> readConfig(Folder &folder, std::vector<frontend::Gap> &gaps);

/// Renames all tensors. What has no name of GGUF keeps its own.
Status nameTensors(Folder &folder, const FolderShape &shape);

/// The tokenizer for an embedding of so many rows; none where the folder has none, or after a gap.
Result<std::optional<generate::Vocabulary>> readVocabulary(const Folder &folder, int64_t rows,
                                                           std::vector<frontend::Gap> &gaps);
/// The chat template, or an empty text.
std::string chatTemplateOf(const Folder &folder, std::vector<frontend::Gap> &gaps);

} // namespace tenon::language

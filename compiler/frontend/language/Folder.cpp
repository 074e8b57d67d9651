// Reads the files of a folder.
#include "compiler/frontend/language/Folder.h"

#include "compiler/frontend/weights/safetensors/Safetensors.h"
#include "support/json/StrictJson.h"
#include "support/text/Text.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace tenon::language {
namespace {

constexpr std::string_view kIndex = "model.safetensors.index.json", kWhole = "model.safetensors";
constexpr JsonLimits kJsonLimits = {
    .maxDepth = 64, .maxValues = size_t{1} << 24, .isObject = true, .acceptsByteOrderMark = false};

Status badFolder(std::string_view what) {
  return Status::error(ErrorId::HuggingFaceFolderBad, std::string(what),
                       "download the whole folder again");
}

bool exists(const std::string &path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// The value that is the whole of a file of JSON; `otherwise` where there is no such file.
Result<Json> readJson(const std::string &folder, std::string_view name, Json otherwise) {
  std::string path = strCat(folder, '/', name);
  if (!exists(path)) {
    return otherwise;
  }
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  Json value;
  std::optional<JsonFault> fault = parseStrict(text, kJsonLimits, value);
  return fault ? Result<Json>(badFolder(strCat(name, ": ", fault->text)))
               : Result<Json>(std::move(value));
}

/// The names of the files with weights, and which of them each tensor is in; no tensors without an
/// index.
struct Shards {
  std::set<std::string> files;
  std::map<std::string, std::string> fileOf;
};

Result<Shards> shardsOf(const std::string &path) {
  Shards shards;
  if (!exists(strCat(path, '/', kIndex))) {
    if (!exists(strCat(path, '/', kWhole))) {
      return badFolder(strCat("it has neither ", kWhole, " nor ", kIndex));
    }
    shards.files.emplace(kWhole);
    return shards;
  }
  TENON_ASSIGN(Json index, readJson(path, kIndex, {}));
  auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return badFolder(strCat(kIndex, " has no weight_map"));
  }
  for (auto &[tensor, file] : map->items()) {
    std::string name = file.is_string() ? file.get<std::string>() : "";
    bool isInside = name.ends_with(".safetensors") && name.find('/') == name.npos &&
                    name.find('\0') == name.npos;
    if (!isInside) {
      return badFolder(strCat(kIndex, ": the tensor '", tensor,
                              "' is not in a .safetensors file of the folder"));
    }
    shards.files.insert(name);
    shards.fileOf.emplace(tensor, std::move(name));
  }
  for (const std::string &name : shards.files) {
    if (!exists(strCat(path, '/', name))) {
      return badFolder(strCat(kIndex, " names '", name, "', which is not in the folder"));
    }
  }
  return shards;
}

/// All tensors of the folder, by the names that it has for them.
Status readTensors(const std::string &path, Folder &folder, std::vector<frontend::Gap> &gaps) {
  TENON_ASSIGN(Shards shards, shardsOf(path));
  std::map<std::string, std::vector<std::string>> others; // by type
  for (const std::string &name : shards.files) {
    TENON_ASSIGN(MappedFile mapped, MappedFile::open(strCat(path, '/', name)));
    folder.shards.push_back(std::make_shared<MappedFile>(std::move(mapped)));
    Result<safetensors::File> file = safetensors::read(folder.shards.back()->bytes());
    if (!file) {
      return file.takeStatus().prefix(name);
    }
    for (const auto &[tensor, type] : file->others) {
      others[type].push_back(tensor);
      shards.fileOf.erase(tensor);
    }
    for (auto &[tensor, value] : file->tensors) {
      auto stated = shards.fileOf.find(tensor);
      if (stated != shards.fileOf.end() && stated->second != name) {
        continue; // the index says which of two counts
      }
      shards.fileOf.erase(tensor);
      if (!folder.file.tensors.emplace(tensor, std::move(value)).second) {
        return badFolder(strCat("the tensor '", tensor, "' is in two files"));
      }
    }
  }
  for (const auto &[type, tensors] : others) {
    folder.isReadable = false;
    gaps.push_back({.opType = "tensor",
                    .domain = "huggingface",
                    .node = tensors.front(),
                    .source = {},
                    .dtype = type,
                    .why = strCat("weights of type ", type, " are not supported, and ",
                                  tensors.size(), " tensors are of it"),
                    .workaround = "use weights of F32, F16 or BF16"});
  }
  return shards.fileOf.empty()
             ? Status::ok()
             : badFolder(strCat(kIndex, ": the tensor '", shards.fileOf.begin()->first,
                                "' is not in ", shards.fileOf.begin()->second));
}

} // namespace

Result<std::vector<std::string>> filesOfFolder(const std::string &path) {
  std::vector<std::string> files;
  if (!exists(strCat(path, "/config.json"))) {
    return badFolder("it has no config.json");
  }
  for (std::string_view name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "chat_template.jinja", "model.safetensors.index.json"}) {
    std::string file = strCat(path, '/', name);
    if (exists(file)) {
      files.push_back(std::move(file));
    }
  }
  TENON_ASSIGN(Shards shards, shardsOf(path));
  for (const std::string &name : shards.files) {
    files.push_back(strCat(path, '/', name));
  }
  return files;
}

Result<std::shared_ptr<Folder>> openFolder(const std::string &path,
                                           std::vector<frontend::Gap> &gaps) {
  TENON_TRY(filesOfFolder(path).takeStatus());
  std::shared_ptr<Folder> folder = std::make_shared<Folder>();
  TENON_ASSIGN(folder->config, readJson(path, "config.json", {}));
  TENON_ASSIGN(folder->generationConfig, readJson(path, "generation_config.json", Json::object()));
  TENON_ASSIGN(folder->tokenizerConfig, readJson(path, "tokenizer_config.json", Json::object()));
  TENON_ASSIGN(folder->tokenizer, readJson(path, "tokenizer.json", Json()));
  folder->hasOtherTokenizer =
      exists(strCat(path, "/tokenizer.model")) || exists(strCat(path, "/vocab.json"));
  if (std::string file = strCat(path, "/chat_template.jinja"); exists(file)) {
    TENON_ASSIGN(MappedFile mapped, MappedFile::open(file));
    folder->templateFile.emplace(reinterpret_cast<const char *>(mapped.bytes().data()),
                                 mapped.bytes().size());
  }
  TENON_ASSIGN(FolderShape shape, readConfig(*folder, gaps));
  if (shape.layers == 0) {
    return folder; // of a family that is not known
  }
  TENON_TRY(readTensors(path, *folder, gaps));
  TENON_TRY(nameTensors(*folder, shape));
  return folder;
}

} // namespace tenon::language

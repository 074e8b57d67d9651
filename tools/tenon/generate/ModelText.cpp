// Relies on the importer giving the records that an engine of the model would carry.
#include "tools/tenon/generate/ModelText.h"

#include "engine/Reader.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tenon::tool {

Result<Json> textRecord(const std::string &path, const std::string &name) {
  TENON_ASSIGN(bool model, isModel(path, Takes::Either));
  std::string text;
  if (model) {
    TENON_ASSIGN(text, assetOf(path, name));
  } else {
    TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(path));
    Result<std::string_view> record = file->record(name);
    text = record ? std::string(*record) : "";
  }
  Json value = parseJson(text);
  return value.is_object()
             ? Result<Json>(std::move(value))
             : Status::error(
                   ErrorId::NotALanguageModel, fmt::format("{} holds no language model", path),
                   "give a GGUF file, a Hugging Face folder, or an engine compiled from one");
}

} // namespace tenon::tool

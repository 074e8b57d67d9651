// Where models come from: an engine file, a folder of them, or a folder as Triton has it (MODEL/VERSION/model.*, config.pbtxt).

#pragma once

#include "server/protocol/ModelConfig.h"
#include "support/Result.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::server {

struct FoundVersion {
  std::string version; ///< a number
  std::string path;    ///< of the engine
};

struct FoundModel {
  std::string name;
  ModelConfig config;
  /// By number; those that the version policy asks for.
  std::vector<FoundVersion> versions;
  /// Why the model cannot be loaded, if so: its configuration, no version.
  Status problem;
};

/// Letters, digits, '.', '_' and '-', not beginning with '.', at most 255.
bool isModelName(std::string_view name);

/// The number that a version is called; none for other names, such as 01.
std::optional<int64_t> versionNumber(const std::string &name);

class ModelFolder {
public:
  /// TN0804 where `path` is neither an engine file nor a folder. Fields of config.pbtxt that are not known are notes if `isLenient`.
  static Result<ModelFolder> open(const std::string &path, bool isLenient);

  /// All models, by name; TN0804 where there is none.
  Result<std::vector<FoundModel>> scan() const;
  /// One model as it is there now; TN0810 where it is not.
  Result<FoundModel> find(const std::string &name) const;

private:
  ModelFolder(std::string path, bool isFile, bool isLenient) : root(std::move(path)), isFile(isFile), isLenient(isLenient) {}
  FoundModel readTritonModel(const std::string &name) const;

  std::string root;
  bool isFile;
  bool isLenient;
};

} // namespace tenon::server

// Models of an engine file, a folder of them, or a folder as Triton has it (MODEL/VERSION/
// model.tenon, config.pbtxt).

#pragma once

#include "server/repository/ModelRepository.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// Letters, digits, '.', '_' and '-', not beginning with '.', at most 255.
bool isModelName(std::string_view name);

class ModelFolder final : public ModelRepository {
public:
  /// TN0804 where `path` is neither an engine file nor a folder. Fields of config.pbtxt that are
  /// not known are notes if `isLenient`.
  static Result<ModelFolder> open(const std::string &path, bool isLenient);

  Result<std::vector<FoundModel>> scan() const override;
  Result<FoundModel> find(const std::string &name) const override;

private:
  ModelFolder(std::string path, bool isFile, bool isLenient)
      : root(std::move(path)), isFile(isFile), isLenient(isLenient) {}
  FoundModel readTritonModel(const std::string &name) const;
  /// Of `model`, whose name is known; nothing where there is none.
  Status readConfig(const std::string &path, FoundModel &model) const;

  std::string root;
  bool isFile;
  bool isLenient;
};

} // namespace tenon::server

#include "server/repository/NamedRepository.h"

#include "server/repository/ModelFolder.h"

#include <fmt/format.h>

namespace tenon::server {

Result<std::unique_ptr<ModelRepository>>
NamedRepository::open(std::unique_ptr<ModelRepository> repository, const std::string &name) {
  if (!isModelName(name)) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("'{}' cannot be the name of a model", name),
                         "names consist of letters, digits, '.', '_' and '-'");
  }
  return std::unique_ptr<ModelRepository>(new NamedRepository(std::move(repository), name));
}

Result<std::vector<FoundModel>> NamedRepository::scan() const {
  TENON_ASSIGN(std::vector<FoundModel> found, repository->scan());
  if (found.size() != 1) {
    return Status::error(
        ErrorId::BadModelFolder,
        fmt::format("there are {} models, but '{}' can name only one", found.size(), name),
        "serve one engine, or leave out --name: then each model is named after its file");
  }
  found[0].name = name;
  return found;
}

Result<FoundModel> NamedRepository::find(const std::string &wanted) const {
  if (wanted != name) {
    return noModel(wanted);
  }
  TENON_ASSIGN(std::vector<FoundModel> found, scan());
  return found[0];
}

void NamedRepository::watch(std::function<void(const std::string &name)> onChange) {
  repository->watch(
      [onChange = std::move(onChange), own = name](const std::string &) { onChange(own); });
}

} // namespace tenon::server

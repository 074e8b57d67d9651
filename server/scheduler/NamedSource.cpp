#include "server/scheduler/NamedSource.h"

#include "server/scheduler/ModelFolder.h"

#include <fmt/format.h>

namespace tenon::server {

Result<std::unique_ptr<ModelSource>> NamedSource::open(std::unique_ptr<ModelSource> source,
                                                       const std::string &name) {
  if (!isModelName(name)) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("'{}' cannot be the name of a model", name),
                         "names have letters, digits, '.', '_' and '-'");
  }
  return std::unique_ptr<ModelSource>(new NamedSource(std::move(source), name));
}

Result<std::vector<FoundModel>> NamedSource::scan() const {
  TENON_ASSIGN(std::vector<FoundModel> found, source->scan());
  if (found.size() != 1) {
    return Status::error(
        ErrorId::BadModelFolder,
        fmt::format("there are {} models, and '{}' is the name of one", found.size(), name),
        "serve one engine, or leave --name out: each model has the name of its file then");
  }
  found[0].name = name;
  return found;
}

Result<FoundModel> NamedSource::find(const std::string &wanted) const {
  if (wanted != name) {
    return noModel(wanted);
  }
  TENON_ASSIGN(std::vector<FoundModel> found, scan());
  return found[0];
}

void NamedSource::watch(std::function<void(const std::string &name)> onChange) {
  source->watch(
      [onChange = std::move(onChange), own = name](const std::string &) { onChange(own); });
}

} // namespace tenon::server

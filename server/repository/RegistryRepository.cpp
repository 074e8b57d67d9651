#include "server/repository/RegistryRepository.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace tenon::server {
namespace {

/// Between two looks: an alias that moved is followed well within two seconds.
constexpr std::chrono::milliseconds kPeriod{500};

} // namespace

Status checkServed(registry::Registry &registry, const registry::Version &version,
                   const signing::Trust *trust) {
  if (version.kind != "engine") {
    return Status::error(
        ErrorId::BadModelFolder,
        fmt::format("{} is of kind {}, not an engine", version.text(), version.kind),
        "compile it, push the engine, and serve that");
  }
  TENON_TRY(registry.check(version));
  return trust ? registry.requireSignature(version, *trust) : Status::ok();
}

Result<std::unique_ptr<RegistryRepository>>
RegistryRepository::open(const std::string &folder, Selection selection,
                         std::optional<signing::Trust> trust, Log log) {
  TENON_ASSIGN(registry::Registry registry,
               registry::Registry::open(folder, {.by = "serve", .clock = {}}));
  std::unique_ptr<RegistryRepository> repository(new RegistryRepository(
      std::move(selection), std::move(registry), std::move(trust), std::move(log)));
  TENON_ASSIGN(auto versions, repository->wanted());
  for (const auto &[name, version] : versions) {
    repository->follow(name, version);
  }
  for (const registry::Reference &each : repository->selection.named) {
    TENON_ASSIGN(registry::Version version, repository->registry.find(each));
    TENON_TRY(repository->present[each.name].problem);
  }
  if (repository->present.empty()) {
    return Status::error(ErrorId::BadModelFolder,
                         fmt::format("no engine of the registry is at '{}'{}",
                                     repository->selection.text(),
                                     repository->selection.tags.empty() ? "" : " with these tags"),
                         "`tenon registry list` has the aliases");
  }
  return repository;
}

RegistryRepository::~RegistryRepository() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
  }
  wake.notify_all();
  if (thread.joinable()) {
    thread.join();
  }
}

Result<int64_t> RegistryRepository::rollback(const std::string &folder,
                                             const registry::Reference &reference, int64_t version,
                                             const std::string &reason) {
  TENON_ASSIGN(registry::Registry registry,
               registry::Registry::open(folder, {.by = "serve", .clock = {}}));
  TENON_ASSIGN(registry::Move move,
               registry.rollback(reference.name, reference.alias, version, reason));
  return move.to;
}

void RegistryRepository::tell(const std::string &what, const Status &problem) {
  std::string text = problem.isOk() ? "" : problem.toString();
  if (!text.empty() && troubles[what] != text) { // once, not at each look
    log(fmt::format("'{}' cannot be followed, what was served before is served on: {}", what, text),
        LogLevel::Error);
  }
  text.empty() ? static_cast<void>(troubles.erase(what)) : static_cast<void>(troubles[what] = text);
}

std::string RegistryRepository::dataOf(const registry::Version &version) {
  std::string name = version.facts.contains("data") && version.facts["data"].is_string()
                         ? version.facts["data"].get<std::string>()
                         : "";
  Result<registry::Reference> data = registry::parseReference(name);
  Result<registry::Version> found =
      data.isOk() ? registry.find(*data) : Result<registry::Version>(data.takeStatus());
  if (!found.isOk()) {
    return "";
  }
  // Brought here where it is stored elsewhere, and what it is called by its hash.
  Status status = found->isDeleted
                      ? Status::error(ErrorId::NoSuchObject, found->text() + " was deleted by gc")
                      : registry.check(*found);
  if (!status.isOk()) {
    log(fmt::format("'{}' is compared with nothing: {}", version.text(), status.toString()),
        LogLevel::Warning);
  }
  return status.isOk() ? registry.pathOf(*found) : "";
}

FoundModel RegistryRepository::resolve(const registry::Version &version) {
  FoundModel model;
  model.name = version.name;
  model.versions = {{std::to_string(version.number), registry.pathOf(version),
                     trust ? version.blob.hash : "", Status::ok()}};
  std::string data = dataOf(version);
  if (!data.empty()) {
    model.config.parameters.emplace_back("drift_reference", data);
  }
  model.problem = checkServed(registry, version, trust ? &*trust : nullptr);
  return model;
}

bool RegistryRepository::isSelected(const registry::Version &version) const {
  bool isNamed = std::ranges::find(selection.named, version.name, &registry::Reference::name) !=
                 selection.named.end();
  Json meta = version.facts.value("meta", Json::object());
  return isNamed ||
         (version.kind == "engine" && std::ranges::all_of(selection.tags, [&](const auto &tag) {
            return meta.value(tag.first, Json()) == tag.second;
          }));
}

Result<std::map<std::string, int64_t>> RegistryRepository::wanted() {
  std::map<std::string, int64_t> versions;
  if (!selection.everywhere.empty()) {
    TENON_ASSIGN(versions, registry.objectsAt(selection.everywhere));
  }
  for (const registry::Reference &each : selection.named) {
    TENON_ASSIGN(versions[each.name], registry.aliasOf(each.name, each.alias));
  }
  return versions;
}

bool RegistryRepository::follow(const std::string &name, int64_t number) {
  std::map<std::string, int64_t>::iterator passed = passedOver.find(name);
  if (passed != passedOver.end() && passed->second == number) {
    return false;
  }
  std::string served;
  bool isSound = false;
  {
    std::lock_guard lock(mutex);
    std::map<std::string, FoundModel>::const_iterator found = present.find(name);
    if (found != present.end()) {
      served = found->second.versions.front().version;
      // A file that came from another machine may have been removed from this one's cache since.
      std::error_code ignored;
      bool isThere = std::filesystem::exists(found->second.versions.front().path, ignored);
      isSound = found->second.problem.isOk();
      if (isSound && isThere && std::to_string(number) == served) {
        troubles.erase(name);
        return false;
      }
    }
  }
  std::optional<registry::Reference> reference = selection.of(name);
  Result<registry::Version> version =
      registry.find(number != 0 || !reference ? registry::Reference{name, number, ""} : *reference);
  if (version.isOk() && !isSelected(*version)) {
    passedOver[name] = number;
    if (!served.empty()) {
      log(fmt::format("'{}' is not selected any more; version {} of it is served on",
                      version->text(), served),
          LogLevel::Warning);
    }
    return false;
  }
  std::optional<FoundModel> found;
  if (version.isOk()) {
    found = resolve(*version);
  }
  tell(reference ? reference->text() : name, found ? found->problem : version.takeStatus());
  if (!found || (!served.empty() && !isSound && !found->problem.isOk() &&
                 found->versions.front().version == served)) {
    return false;
  }
  std::lock_guard lock(mutex);
  present[name] = std::move(*found);
  return true;
}

Result<std::vector<FoundModel>> RegistryRepository::scan() const {
  std::lock_guard lock(mutex);
  std::vector<FoundModel> models;
  for (const auto &[name, model] : present) {
    models.push_back(model);
  }
  return models;
}

Result<FoundModel> RegistryRepository::find(const std::string &name) const {
  std::lock_guard lock(mutex);
  std::map<std::string, FoundModel>::const_iterator found = present.find(name);
  return found == present.end() ? noModel(name) : Result<FoundModel>(found->second);
}

void RegistryRepository::watch(std::function<void(const std::string &name)> onChange) {
  thread = std::thread([this, onChange = std::move(onChange)] { run(onChange); });
}

std::vector<std::string> RegistryRepository::poll() {
  std::vector<std::string> changed;
  Result<std::map<std::string, int64_t>> versions = wanted();
  tell(selection.text(), versions.isOk() ? Status::ok() : versions.status());
  if (versions.isOk()) {
    for (const auto &[name, version] : *versions) {
      if (follow(name, version)) {
        changed.push_back(name);
      }
    }
  }
  return changed;
}

void RegistryRepository::run(const std::function<void(const std::string &name)> &onChange) {
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, kPeriod, [this] { return isEnding; })) {
    lock.unlock();
    for (const std::string &name : poll()) {
      onChange(name);
    }
    lock.lock();
  }
}

} // namespace tenon::server

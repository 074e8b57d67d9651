#include "server/repository/RegistryRepository.h"

#include <fmt/format.h>

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
RegistryRepository::open(const std::string &folder, const std::string &what,
                         std::optional<signing::Trust> trust, Log log) {
  TENON_ASSIGN(registry::Reference reference, registry::parseReference(what));
  if (reference.alias.empty()) {
    return Status::error(ErrorId::BadObjectName, fmt::format("'{}' names no alias", what),
                         "serve registry:NAME@ALIAS, which follows the alias");
  }
  std::unique_ptr<RegistryRepository> repository(
      new RegistryRepository(folder, std::move(reference), std::move(trust), std::move(log)));
  TENON_ASSIGN(registry::Registry registry,
               registry::Registry::open(folder, {.by = "serve", .clock = {}}));
  TENON_ASSIGN(repository->present, repository->resolve(registry));
  TENON_TRY(repository->present.problem);
  repository->opened.emplace(std::move(registry));
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

Result<int64_t> RegistryRepository::rollback(const std::string &folder, const std::string &what,
                                             int64_t version, const std::string &reason) {
  TENON_ASSIGN(registry::Reference reference, registry::parseReference(what));
  TENON_ASSIGN(registry::Registry registry,
               registry::Registry::open(folder, {.by = "serve", .clock = {}}));
  TENON_ASSIGN(registry::Move move,
               registry.rollback(reference.name, reference.alias, version, reason));
  return move.to;
}

std::string RegistryRepository::dataOf(registry::Registry &registry,
                                       const registry::Version &version) const {
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
    log(fmt::format("'{}' is compared with nothing: {}", reference.text(), status.toString()),
        LogLevel::Warning);
  }
  return status.isOk() ? registry.pathOf(*found) : "";
}

Result<FoundModel> RegistryRepository::resolve(registry::Registry &registry) const {
  TENON_ASSIGN(registry::Version version, registry.find(reference));
  FoundModel model;
  model.name = version.name;
  model.versions = {{std::to_string(version.number), registry.pathOf(version),
                     trust ? version.blob.hash : "", Status::ok()}};
  std::string data = dataOf(registry, version);
  if (!data.empty()) {
    model.config.parameters.emplace_back("drift_reference", data);
  }
  model.problem = checkServed(registry, version, trust ? &*trust : nullptr);
  return model;
}

Result<std::vector<FoundModel>> RegistryRepository::scan() const {
  std::lock_guard lock(mutex);
  return std::vector<FoundModel>{present};
}

Result<FoundModel> RegistryRepository::find(const std::string &name) const {
  std::lock_guard lock(mutex);
  if (name != present.name) {
    return noModel(name);
  }
  return present;
}

void RegistryRepository::watch(std::function<void(const std::string &name)> onChange) {
  thread = std::thread([this, onChange = std::move(onChange)] { run(onChange); });
}

bool RegistryRepository::poll() {
  Result<int64_t> at = opened->aliasOf(reference.name, reference.alias);
  std::string served, path;
  bool isSound = true;
  {
    std::lock_guard lock(mutex);
    served = present.versions.front().version;
    path = present.versions.front().path;
    isSound = present.problem.isOk();
  }
  // A file that came from another machine may have been removed from this one's cache since.
  std::error_code ignored;
  if (at.isOk() && isSound && std::to_string(*at) == served &&
      std::filesystem::exists(path, ignored)) {
    trouble = Status::ok();
    return false;
  }
  Result<FoundModel> found = at.isOk() ? resolve(*opened) : Result<FoundModel>(at.takeStatus());
  Status problem = found.isOk() ? found->problem : found.takeStatus();
  if (!problem.isOk()) {
    if (problem.toString() != trouble.toString()) { // once, not at each poll
      log(fmt::format("'{}' cannot be followed, what was served before is served on: {}",
                      reference.text(), problem.toString()),
          LogLevel::Error);
    }
    trouble = problem;
  }
  if (!found.isOk() ||
      (!isSound && !found->problem.isOk() && found->versions.front().version == served)) {
    return false;
  }
  std::lock_guard lock(mutex);
  present = std::move(*found);
  return true;
}

void RegistryRepository::run(const std::function<void(const std::string &name)> &onChange) {
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, kPeriod, [this] { return isEnding; })) {
    lock.unlock();
    if (poll()) {
      onChange(reference.name);
    }
    lock.lock();
  }
}

} // namespace tenon::server

#include "server/repository/RegistryRepository.h"

#include "support/files/MappedFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace tenon::server {
namespace {

/// Between two looks: an alias that moved is followed well within two seconds.
constexpr std::chrono::milliseconds kPeriod{500};

/// Whether the versions of a model are those, and their files are there, but for those that come
/// when they are needed.
bool areServed(const FoundModel &model, const std::vector<int64_t> &numbers) {
  return model.versions.size() == numbers.size() && model.preferred == numbers.front() &&
         std::ranges::all_of(model.versions, [&](const FoundVersion &each) {
           std::error_code ignored;
           int64_t number = versionNumber(each.version).value_or(0);
           return std::ranges::find(numbers, number) != numbers.end() &&
                  (!each.remote.empty() || std::filesystem::exists(each.path, ignored));
         });
}

/// Of a version in several files.
constexpr const char *kConfig = "config.pbtxt";

std::string hashOfEngine(const registry::Version &version) {
  for (const registry::Part &part : version.parts) {
    if (part.path == version.mainPath()) {
      return part.blob.hash;
    }
  }
  return version.blob.hash;
}

/// What comes before the version is loaded, the engine first.
std::vector<RemoteFile> filesOf(const registry::Version &version,
                                const std::optional<registry::Version> &data) {
  std::vector<RemoteFile> found;
  if (version.parts.empty()) {
    found.push_back({version.blob.hash, version.blob.bytes});
  }
  for (const registry::Part &part : version.parts) {
    found.insert(part.path == version.mainPath() ? found.begin() : found.end(),
                 {part.blob.hash, part.blob.bytes});
  }
  if (data) {
    found.push_back({data->blob.hash, data->blob.bytes, true});
  }
  return found;
}

} // namespace

Status checkServed(registry::Registry &registry, const registry::Version &version,
                   const signing::Trust *trust, bool fetches) {
  if (version.kind != "engine") {
    return Status::error(
        ErrorId::BadModelFolder,
        fmt::format("{} is of kind {}, not an engine", version.text(), version.kind),
        "compile it, push the engine, and serve the engine");
  }
  if (fetches || !registry.files()->isRemote()) {
    TENON_TRY(registry.check(version));
  }
  return trust ? registry.requireSignature(version, *trust) : Status::ok();
}

Result<std::unique_ptr<RegistryRepository>>
RegistryRepository::open(const RegistryAddress &address, Selection selection,
                         std::optional<signing::Trust> trust, Log log) {
  TENON_ASSIGN(registry::Registry registry,
               registry::Registry::open(
                   address.where, {.by = "serve", .clock = {}, .cacheSize = address.cacheSize}));
  std::unique_ptr<RegistryRepository> repository(new RegistryRepository(
      std::move(selection), std::move(registry), std::move(trust), std::move(log)));
  TENON_ASSIGN(Wanted versions, repository->wanted());
  for (const auto &[name, numbers] : versions) {
    repository->follow(name, numbers);
  }
  for (const registry::Reference &each : repository->selection.named) {
    bool isFirst = repository->selection.of(each.name).front().alias == each.alias;
    Result<registry::Version> version = repository->registry.find(each);
    // So that what is named is loaded at the start.
    Status status = version.isOk() ? repository->present[each.name].problem : version.takeStatus();
    status = status.isOk() ? repository->registry.check(*version) : status;
    if (isFirst) { // a canary may come later
      TENON_TRY(std::move(status));
    }
  }
  if (repository->present.empty() && !repository->selection.isEmpty()) {
    return Status::error(ErrorId::BadModelFolder,
                         fmt::format("no engine in the registry has the alias '{}'{}",
                                     repository->selection.text(),
                                     repository->selection.tags.empty() ? "" : " with these tags"),
                         "`tenon registry list` shows the aliases");
  }
  return repository;
}

RegistryRepository::~RegistryRepository() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
  }
  wake.notify_all();
  files->cancel();
  fetching.join();
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
    log(fmt::format("'{}' cannot be followed; the previous version stays in service: {}", what,
                    text),
        LogLevel::Error);
  }
  text.empty() ? static_cast<void>(troubles.erase(what)) : static_cast<void>(troubles[what] = text);
}

std::optional<registry::Version> RegistryRepository::dataOf(const registry::Version &version) {
  std::string name = version.facts.contains("data") && version.facts["data"].is_string()
                         ? version.facts["data"].get<std::string>()
                         : "";
  Result<registry::Reference> data = registry::parseReference(name);
  Result<registry::Version> found =
      data.isOk() ? registry.find(*data) : Result<registry::Version>(data.takeStatus());
  if (!found.isOk()) {
    return std::nullopt;
  }
  Status status = found->isDeleted
                      ? Status::error(ErrorId::NoSuchObject, found->text() + " was deleted by gc")
                  : files->isRemote() ? Status::ok()
                                      : registry.check(*found);
  if (!status.isOk()) {
    log(fmt::format("'{}' is not compared with anything: {}", version.text(), status.toString()),
        LogLevel::Warning);
  }
  return status.isOk() ? std::optional(std::move(*found)) : std::nullopt;
}

std::vector<std::string> RegistryRepository::labelsOf(const registry::Version &version) {
  std::vector<std::string> labels;
  if (Result<registry::Object> object = registry.object(version.name); object.isOk()) {
    for (const registry::Alias &alias : object->aliases) {
      if (alias.version == version.number) {
        labels.push_back("@" + alias.name);
      }
    }
  }
  Json meta = version.facts.value("meta", Json::object());
  for (const auto &[key, value] : meta.items()) {
    labels.push_back(
        fmt::format("{}={}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return labels;
}

Result<std::string> RegistryRepository::engineOf(const registry::Version &version) {
  if (!version.isFolder()) {
    return registry.pathOf(version);
  }
  if (!folders) {
    // Hard links, where this user may make them beside the files.
    Result<ScratchFolder> near = ScratchFolder::create(registry.filesFolder(), "serve");
    if (!near.isOk()) {
      near = ScratchFolder::create("serve");
    }
    TENON_ASSIGN(folders, std::move(near));
  }
  std::string folder = fmt::format("{}/{}-{}", folders->path(), version.name, version.number);
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) {
    std::string whole = folder + ".unfinished";
    std::filesystem::remove_all(whole, ignored);
    TENON_TRY(registry.writeFolder(version, whole, false));
    std::filesystem::rename(whole, folder, ignored);
  }
  return folder + "/" + version.mainPath();
}

Status RegistryRepository::readConfig(const registry::Version &version, const std::string &engine,
                                      FoundModel &model) {
  std::vector<registry::Part>::const_iterator part =
      std::ranges::find(version.parts, kConfig, &registry::Part::path);
  if (part == version.parts.end()) {
    return Status::ok();
  }
  std::string path = engine.substr(0, engine.size() - version.mainPath().size()) + kConfig;
  if (files->isRemote()) { // it is small, and says how the engine is to be served
    TENON_TRY(files->provide(part->blob));
    path = files->pathOf(part->blob.hash);
  }
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  std::string text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  TENON_ASSIGN(model.config, parseModelConfig(text, path, true));
  return model.config.name.empty() || model.config.name == model.name
             ? Status::ok()
             : Status::error(ErrorId::BadModelConfig,
                             fmt::format("config.pbtxt of {}: the name is '{}'", version.text(),
                                         model.config.name),
                             "use the object's name, or leave out the name");
}

FoundModel RegistryRepository::resolve(const std::vector<registry::Version> &versions) {
  const registry::Version &first = versions.front();
  FoundModel model;
  model.name = first.name;
  model.preferred = first.number;
  std::optional<registry::Version> data = dataOf(first);
  for (const registry::Version &version : versions) {
    Status problem = checkServed(registry, version, trust ? &*trust : nullptr, false);
    Result<std::string> engine = files->pathOf(hashOfEngine(version));
    if (problem.isOk() && !files->isRemote()) {
      engine = engineOf(version);
    }
    problem = engine.isOk() ? std::move(problem) : engine.takeStatus();
    if (problem.isOk() && version.number == first.number) {
      problem = readConfig(version, *engine, model);
    }
    if (version.number == first.number) {
      model.problem = problem;
      problem = Status::ok();
    }
    model.versions.push_back({std::to_string(version.number), engine.isOk() ? *engine : "",
                              trust ? hashOfEngine(version) : "", std::move(problem)});
    model.versions.back().labels = labelsOf(version);
    if (files->isRemote()) {
      model.versions.back().remote = filesOf(version, data);
    }
  }
  std::ranges::sort(model.versions, {}, [](const FoundVersion &each) {
    return versionNumber(each.version).value_or(0);
  });
  if (data) {
    model.config.parameters.emplace_back("drift_reference", registry.pathOf(*data));
  }
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

Result<RegistryRepository::Wanted> RegistryRepository::wanted() {
  Wanted versions;
  for (const registry::Reference &each : selection.named) {
    TENON_ASSIGN(int64_t at, registry.aliasOf(each.name, each.alias));
    std::vector<int64_t> &numbers = versions[each.name];
    bool isNew = std::ranges::find(numbers, at) == numbers.end();
    if (numbers.empty() || (at != 0 && isNew)) { // a canary need not be there
      numbers.push_back(at);
    }
  }
  if (!selection.everywhere.empty()) {
    TENON_ASSIGN(auto everywhere, registry.objectsAt(selection.everywhere));
    for (const auto &[name, at] : everywhere) {
      if (name.starts_with(selection.space)) {
        versions.try_emplace(name, std::vector<int64_t>{at});
      }
    }
  }
  return versions;
}

bool RegistryRepository::follow(const std::string &name, const std::vector<int64_t> &numbers) {
  Wanted::iterator passed = passedOver.find(name);
  if (passed != passedOver.end() && passed->second == numbers) {
    return false;
  }
  std::optional<FoundModel> served;
  {
    std::lock_guard lock(mutex);
    std::map<std::string, FoundModel>::const_iterator found = present.find(name);
    if (found != present.end()) {
      served = found->second;
    }
  }
  std::vector<registry::Reference> references = selection.of(name);
  std::string what = references.empty() ? name : references.front().text();
  if (served && served->problem.isOk() && areServed(*served, numbers)) {
    troubles.erase(what);
    return false;
  }
  std::vector<registry::Version> versions;
  for (int64_t number : numbers) {
    Result<registry::Version> version =
        registry.find(number != 0 ? registry::Reference{name, number, ""} : references.front());
    if (!version.isOk()) {
      tell(what, version.takeStatus());
      return false;
    }
    versions.push_back(std::move(*version));
  }
  if (!isSelected(versions.front())) {
    passedOver[name] = numbers;
    if (served) {
      log(fmt::format("'{}' is no longer selected; its version {} stays in service",
                      versions.front().text(), served->preferred),
          LogLevel::Warning);
    }
    return false;
  }
  FoundModel found = resolve(versions);
  tell(what, found.problem);
  if (served && !served->problem.isOk() && !found.problem.isOk() &&
      found.preferred == served->preferred) {
    return false;
  }
  std::lock_guard lock(mutex);
  present[name] = std::move(found);
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
  Result<Wanted> versions = wanted();
  tell(selection.text(), versions.isOk() ? Status::ok() : versions.takeStatus());
  if (versions.isOk()) {
    for (const auto &[name, numbers] : *versions) {
      if (follow(name, numbers)) {
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

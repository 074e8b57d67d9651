#include "server/repository/RegistryRepository.h"

#include "server/protocol/MetricsText.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

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

/// The file under a lock that keeps it from leaving this machine for others; nothing where it left
/// just now.
std::shared_ptr<Descriptor> openKept(const std::string &path) {
  std::shared_ptr<Descriptor> file =
      std::make_shared<Descriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  bool isKept = file->isOpen() && flock(file->get(), LOCK_SH | LOCK_NB) == 0 &&
                fstat(file->get(), &info) == 0 && info.st_nlink > 0;
  return isKept ? file : nullptr;
}

} // namespace

Status checkServed(registry::Registry &registry, const registry::Version &version,
                   const signing::Trust *trust, bool fetches) {
  if (version.kind != "engine") {
    return Status::error(
        ErrorId::BadModelFolder,
        fmt::format("{} is of kind {}, not an engine", version.text(), version.kind),
        "compile it, push the engine, and serve that");
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
    log(fmt::format("'{}' cannot be followed, what was served before is served on: {}", what, text),
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
    log(fmt::format("'{}' is compared with nothing: {}", version.text(), status.toString()),
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

FoundModel RegistryRepository::resolve(const std::vector<registry::Version> &versions) {
  const registry::Version &first = versions.front();
  FoundModel model;
  model.name = first.name;
  model.preferred = first.number;
  std::optional<registry::Version> data = dataOf(first);
  for (const registry::Version &version : versions) {
    Status problem = checkServed(registry, version, trust ? &*trust : nullptr, false);
    if (version.number == first.number) {
      model.problem = problem;
      problem = Status::ok();
    }
    model.versions.push_back({std::to_string(version.number), registry.pathOf(version),
                              trust ? version.blob.hash : "", std::move(problem)});
    model.versions.back().labels = labelsOf(version);
    if (files->isRemote()) {
      std::vector<RemoteFile> &remote = model.versions.back().remote;
      remote.push_back({version.blob.hash, version.blob.bytes});
      if (data) {
        remote.push_back({data->blob.hash, data->blob.bytes, true});
      }
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
      versions.try_emplace(name, std::vector<int64_t>{at});
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
      log(fmt::format("'{}' is not selected any more; version {} of it is served on",
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

void RegistryRepository::provide(const std::vector<RemoteFile> &wanted, OnFile onEnd) {
  boost::asio::post(fetching, [this, wanted, onEnd = std::move(onEnd)] {
    Status problem;
    // The engine last, so that what goes with it is here when it is loaded.
    for (size_t i = wanted.size(); i-- > 0 && problem.isOk();) {
      problem = files->provide({wanted[i].sha256, wanted[i].bytes});
      if (!problem.isOk() && wanted[i].isOptional) {
        log(problem.toString(), LogLevel::Warning);
        problem = Status::ok();
      }
    }
    std::shared_ptr<Descriptor> engine =
        problem.isOk() ? openKept(files->pathOf(wanted.front().sha256)) : nullptr;
    if (problem.isOk() && !engine) {
      problem = Status::error(ErrorId::FileWriteFailed,
                              "an engine left the disk for others before it could be loaded",
                              "raise --cache-size");
    }
    onEnd(problem.isOk() ? Result<std::shared_ptr<Descriptor>>(std::move(engine))
                         : Result<std::shared_ptr<Descriptor>>(std::move(problem)));
  });
}

std::string RegistryRepository::metrics() const {
  if (!files->isRemote()) {
    return "";
  }
  registry::CacheUse use = files->cacheUse();
  struct Row {
    std::string_view name, type, help;
    uint64_t value;
  };
  const Row rows[] = {
      {"tenon_cache_bytes", "gauge", "What files of the registry take on this machine's disk.",
       use.used},
      {"tenon_cache_limit_bytes", "gauge", "What they may take: --cache-size.", use.limit},
      {"tenon_cache_hits_total", "counter", "Files that were here when they were needed.",
       use.hits},
      {"tenon_cache_fetches_total", "counter", "Files that came from the object store.",
       use.fetches},
      {"tenon_cache_fetched_bytes_total", "counter", "Bytes that came from it.", use.fetchedBytes},
      {"tenon_cache_failures_total", "counter", "Files that did not come.", use.failures},
      {"tenon_cache_evictions_total", "counter", "Files that left the disk for others.",
       use.evictions}};
  std::string text;
  for (const Row &row : rows) {
    appendMetricHead(text, row.name, row.type, row.help);
    text += fmt::format("{} {}\n", row.name, row.value);
  }
  return text;
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

// Nothing is followed out of the folder by a name: names of models and versions are checked before
// they become paths.

#include "server/repository/ModelFolder.h"

#include "support/files/MappedFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace tenon::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEngineSuffix = ".tenon";
constexpr uint64_t kMaxConfig = 1 << 20;

Result<std::string> readText(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  if (file.size() > kMaxConfig) {
    return Status::error(ErrorId::BadModelConfig,
                         fmt::format("{} is larger than any configuration", path));
  }
  std::string text(file.size(), '\0');
  TENON_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

std::vector<fs::directory_entry> entriesOf(const std::string &folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(*it);
  }
  return entries;
}

bool isTritonModel(const fs::directory_entry &entry) {
  std::error_code ignored;
  if (!entry.is_directory(ignored)) {
    return false;
  }
  std::vector<fs::directory_entry> inside = entriesOf(entry.path());
  return std::any_of(inside.begin(), inside.end(), [](const fs::directory_entry &each) {
    std::string name = each.path().filename();
    return name == "config.pbtxt" || versionNumber(name).has_value();
  });
}

void applyPolicy(const VersionPolicy &policy, std::map<int64_t, std::string> &versions) {
  if (policy.kind == VersionPolicy::Kind::Specific) {
    std::set<int64_t> wanted(policy.specific.begin(), policy.specific.end());
    std::erase_if(versions, [&](const auto &each) { return !wanted.contains(each.first); });
  } else if (policy.kind == VersionPolicy::Kind::Latest) {
    while (versions.size() > std::max<uint64_t>(policy.latest, 1)) {
      versions.erase(versions.begin());
    }
  }
}

FoundModel engineFile(const std::string &path) {
  return {fs::path(path).stem(), {}, {{"1", path, "", Status::ok()}}, Status::ok()};
}

} // namespace

bool isModelName(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

Result<ModelFolder> ModelFolder::open(const std::string &path, bool isLenient) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return Status::error(ErrorId::FileNotFound, fmt::format("'{}' does not exist", path),
                         "give an engine file or a folder of them");
  }
  bool isFile = fs::is_regular_file(status);
  if (!isFile && !fs::is_directory(status)) {
    return Status::error(ErrorId::BadModelFolder,
                         fmt::format("'{}' is neither a file nor a folder", path));
  }
  if (isFile && !isModelName(fs::path(path).stem().string())) {
    return Status::error(
        ErrorId::BadModelFolder,
        fmt::format("'{}' cannot be the name of a model", fs::path(path).stem().string()),
        "names have letters, digits, '.', '_' and '-'");
  }
  return ModelFolder(path, isFile, isLenient);
}

Result<std::vector<FoundModel>> ModelFolder::scan() const {
  if (isFile) {
    return std::vector<FoundModel>{engineFile(root)};
  }
  std::map<std::string, FoundModel> found;
  for (const fs::directory_entry &entry : entriesOf(root)) {
    std::string file = entry.path().filename();
    bool isEngine = file.ends_with(kEngineSuffix) && !entry.is_directory();
    if (file.starts_with('.') || (!isEngine && !isTritonModel(entry))) {
      continue;
    }
    std::string name = isEngine ? entry.path().stem().string() : file;
    if (!isModelName(name)) {
      return Status::error(ErrorId::BadModelFolder,
                           fmt::format("'{}' in '{}' cannot be the name of a model", file, root),
                           "names have letters, digits, '.', '_' and '-'");
    }
    if (found.contains(name)) {
      return Status::error(
          ErrorId::BadModelFolder,
          fmt::format("'{}' holds both a file and a folder for the model '{}'", root, name),
          "remove one of them");
    }
    found[name] = isEngine ? engineFile(entry.path()) : readTritonModel(name);
  }
  if (found.empty()) {
    return Status::error(
        ErrorId::BadModelFolder, fmt::format("'{}' holds no model", root),
        "a model is NAME.tenon, or NAME/1/model.tenon with or without NAME/config.pbtxt");
  }
  std::vector<FoundModel> models;
  for (auto &[name, model] : found) {
    models.push_back(std::move(model));
  }
  return models;
}

Result<FoundModel> ModelFolder::find(const std::string &name) const {
  if (!isModelName(name)) {
    return noModel(name);
  }
  if (isFile) {
    return name == fs::path(root).stem() ? Result<FoundModel>(engineFile(root)) : noModel(name);
  }
  std::error_code ignored;
  fs::path file = fs::path(root) / (name + std::string(kEngineSuffix));
  if (fs::is_regular_file(file, ignored)) {
    return engineFile(file);
  }
  fs::directory_entry folder(fs::path(root) / name, ignored);
  return isTritonModel(folder) ? Result<FoundModel>(readTritonModel(name)) : noModel(name);
}

FoundModel ModelFolder::readTritonModel(const std::string &name) const {
  FoundModel model;
  model.name = name;
  fs::path folder = fs::path(root) / name;
  std::string configPath = folder / "config.pbtxt";
  std::error_code ignored;
  if (fs::exists(configPath, ignored)) {
    Result<std::string> text = readText(configPath);
    if (!text.isOk()) {
      model.problem = text.takeStatus();
      return model;
    }
    Result<ModelConfig> config = parseModelConfig(*text, configPath, isLenient);
    if (!config.isOk()) {
      model.problem = config.takeStatus();
      return model;
    }
    model.config = std::move(*config);
  }
  if (!model.config.name.empty() && model.config.name != name) {
    model.problem = Status::error(ErrorId::BadModelConfig,
                                  fmt::format("{}: the name is '{}', but the folder is '{}'",
                                              configPath, model.config.name, name),
                                  "make them equal, or leave the name out");
    return model;
  }
  std::map<int64_t, std::string> versions;
  for (const fs::directory_entry &entry : entriesOf(folder)) {
    std::optional<int64_t> number = versionNumber(entry.path().filename());
    if (number && entry.is_directory(ignored)) {
      versions[*number] = entry.path();
    }
  }
  applyPolicy(model.config.versions, versions);
  for (const auto &[number, path] : versions) {
    std::vector<std::string> engines;
    for (const fs::directory_entry &entry : entriesOf(path)) {
      if (entry.path().stem() == "model" && !entry.is_directory(ignored)) {
        engines.push_back(entry.path());
      }
    }
    if (engines.size() != 1) {
      model.problem =
          Status::error(ErrorId::BadModelFolder,
                        fmt::format("'{}' holds {} files model.*, not one", path, engines.size()),
                        "put the engine there as model.tenon");
      return model;
    }
    model.versions.push_back({std::to_string(number), engines[0], "", Status::ok()});
  }
  if (model.versions.empty()) {
    model.problem = Status::error(
        ErrorId::BadModelFolder,
        fmt::format("'{}' holds no version that its version_policy asks for", folder.string()),
        "a version is a folder with a number for its name");
  }
  return model;
}

} // namespace tenon::server

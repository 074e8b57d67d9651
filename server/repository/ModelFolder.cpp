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
                         fmt::format("{} is too large for a configuration", path));
  }
  std::string text(file.size(), '\0');
  TENON_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<std::vector<fs::directory_entry>> entriesOf(const fs::path &folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(*it);
  }
  return error
             ? Status::error(ErrorId::BadModelFolder, fmt::format("'{}' cannot be read: {}",
                                                                  folder.string(), error.message()))
             : Result<std::vector<fs::directory_entry>>(std::move(entries));
}

/// Also one that cannot be read, which nobody should miss.
bool isTritonModel(const fs::directory_entry &entry) {
  std::error_code ignored;
  if (!entry.is_directory(ignored)) {
    return false;
  }
  Result<std::vector<fs::directory_entry>> inside = entriesOf(entry.path());
  return !inside.isOk() ||
         std::any_of(inside->begin(), inside->end(), [](const fs::directory_entry &each) {
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

Status badName(const std::string &file, const std::string &folder) {
  return Status::error(ErrorId::BadModelFolder,
                       fmt::format("'{}' in '{}' cannot be the name of a model", file, folder),
                       "names consist of letters, digits, '.', '_' and '-'");
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
                         "give an engine file or a folder of engines");
  }
  bool isFile = fs::is_regular_file(status);
  if (!isFile && !fs::is_directory(status)) {
    return Status::error(ErrorId::BadModelFolder,
                         fmt::format("'{}' is neither a file nor a folder", path));
  }
  if (isFile && !isModelName(fs::path(path).stem().string())) {
    return badName(fs::path(path).filename(), fs::path(path).parent_path());
  }
  return ModelFolder(path, isFile, isLenient);
}

Result<std::vector<FoundModel>> ModelFolder::scan() const {
  if (isFile) {
    return std::vector<FoundModel>{engineFile(root)};
  }
  std::map<std::string, FoundModel> found;
  std::vector<Status> passedOver;
  TENON_ASSIGN(std::vector<fs::directory_entry> entries, entriesOf(root));
  for (const fs::directory_entry &entry : entries) {
    std::string file = entry.path().filename();
    std::error_code ignored;
    bool isEngine = file.ends_with(kEngineSuffix) && !entry.is_directory(ignored);
    if (file.starts_with('.') || (!isEngine && !isTritonModel(entry))) {
      continue;
    }
    std::string name = isEngine ? entry.path().stem().string() : file;
    if (!isModelName(name)) {
      passedOver.push_back(badName(file, root));
    } else if (found.contains(name)) {
      found[name].problem = Status::error(
          ErrorId::BadModelFolder,
          fmt::format("'{}' contains both a file and a folder for the model '{}'", root, name),
          "remove one of them");
    } else {
      found[name] = isEngine ? engineFile(entry.path()) : readTritonModel(name);
    }
  }
  if (found.empty()) {
    return !passedOver.empty()
               ? passedOver[0]
               : Status::error(ErrorId::BadModelFolder, fmt::format("'{}' contains no model", root),
                               "a model is NAME.tenon, or NAME/1/model.tenon with or without "
                               "NAME/config.pbtxt");
  }
  for (const Status &each : passedOver) {
    found.begin()->second.config.notes.push_back(each.toString() + "; it is ignored");
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
  model.problem = readConfig(folder / "config.pbtxt", model);
  Result<std::vector<fs::directory_entry>> entries = entriesOf(folder);
  if (!entries.isOk()) {
    model.problem = entries.takeStatus();
    return model;
  }
  std::map<int64_t, std::string> versions;
  std::error_code ignored;
  for (const fs::directory_entry &entry : *entries) {
    std::optional<int64_t> number = versionNumber(entry.path().filename());
    if (number && entry.is_directory(ignored)) {
      versions[*number] = entry.path();
    }
  }
  applyPolicy(model.config.versions, versions);
  std::string file = model.config.fileName.empty() ? "model.tenon" : model.config.fileName;
  for (const auto &[number, path] : versions) {
    FoundVersion &version = model.versions.emplace_back();
    version.version = std::to_string(number);
    version.path = fs::path(path) / file;
    if (!fs::exists(version.path, ignored)) {
      version.problem =
          Status::error(ErrorId::BadModelFolder, fmt::format("'{}' contains no {}", path, file),
                        fmt::format("create it with tenon compile {0}/model.onnx -o {0}/{1}, or "
                                    "set another default_model_filename",
                                    path, file));
    }
  }
  if (model.problem.isOk() && versions.empty()) {
    model.problem = Status::error(
        ErrorId::BadModelFolder,
        fmt::format("'{}' contains no version that its version_policy selects", folder.string()),
        "a version is a folder whose name is a number");
  }
  return model;
}

Status ModelFolder::readConfig(const std::string &path, FoundModel &model) const {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) {
    return Status::ok();
  }
  TENON_ASSIGN(std::string text, readText(path));
  TENON_ASSIGN(model.config, parseModelConfig(text, path, isLenient));
  return model.config.name.empty() || model.config.name == model.name
             ? Status::ok()
             : Status::error(ErrorId::BadModelConfig,
                             fmt::format("{}: the name is '{}', but the folder is '{}'", path,
                                         model.config.name, model.name),
                             "make them equal, or leave out the name");
}

} // namespace tenon::server

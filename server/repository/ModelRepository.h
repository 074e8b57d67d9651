// Where a server takes its models from: a folder, or an alias of a registry.

#pragma once

#include "server/ipc/Descriptor.h"
#include "server/protocol/ModelConfig.h"
#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::server {

/// A file of a version that the repository brings when it is needed.
struct RemoteFile {
  std::string sha256;
  uint64_t bytes = 0;
  bool isOptional = false; ///< the version is served without it
};

struct FoundVersion {
  std::string version;     ///< a number
  std::string path;        ///< of the engine
  std::string sha256 = {}; ///< that the engine's bytes must have; empty: any
  Status problem = {};     ///< why this version cannot be loaded, if so
  /// What `provide` brings before each load, the engine first; empty where `path` is a file that
  /// stays.
  std::vector<RemoteFile> remote = {};
  std::vector<std::string> labels = {}; ///< by which people find it: "@production", "team=vision"
  std::string draft = {};               ///< path of its draft model's engine; empty: none
  std::string draftSha256 = {};         ///< that the draft model's bytes must have; empty: any
};

struct FoundModel {
  std::string name;
  ModelConfig config;
  /// By number; those that the version policy asks for, also where the model has a problem.
  std::vector<FoundVersion> versions;
  /// Why the model cannot be loaded, if so: its configuration, no version.
  Status problem;
  /// The version for requests that name none and whose traffic is not split; 0: the newest.
  int64_t preferred = 0;
};

/// The number that a version is called; none for other names, such as 01.
std::optional<int64_t> versionNumber(const std::string &name);

/// TN0810.
Status noModel(const std::string &name);

/// Used by one thread, which it keeps waiting for no longer than a look at a folder takes.
class ModelRepository {
public:
  virtual ~ModelRepository() = default;
  /// All models, by name; TN0804 where there is none. What has a name that no model can have is
  /// left out, with a note of the first model's configuration.
  virtual Result<std::vector<FoundModel>> scan() const = 0;
  /// One model as it is there now; TN0810 where it is not.
  virtual Result<FoundModel> find(const std::string &name) const = 0;
  /// From now on `onChange` is called, by another thread, for a model that is another one than
  /// before. A folder never calls it: who changes it asks for the load.
  virtual void watch(std::function<void(const std::string &name)> onChange) {}

  /// The first of some files, open under a shared lock that keeps it on this machine.
  using OnFile = std::function<void(Result<std::shared_ptr<Descriptor>>)>;
  /// Brings files to this machine where they are not, and checks their hashes. `onEnd` is called
  /// once, by another thread. Only where versions have such files.
  virtual void provide(const std::vector<RemoteFile> &files, OnFile onEnd) {}
  /// What is counted of that, as Prometheus reads it; empty where there are no such files.
  virtual std::string metrics() const { return ""; }
};

} // namespace tenon::server

// Versions at aliases of a registry as the models of a server, which follows them: one alias of one
// object, of several, or of every one that has it. A thread looks where they are. A folder's files
// are read whole before the server hears of a version; those that are elsewhere come when the
// server asks for them, several at once.

#pragma once

#include "registry/Registry.h"
#include "server/protocol/Log.h"
#include "server/repository/ModelRepository.h"
#include "server/repository/Selection.h"
#include "support/files/ScratchFolder.h"

#include <boost/asio/thread_pool.hpp>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace tenon::server {

/// What a server asks of a version before it serves it: TN0804 where it is no engine, TN1005; with
/// `trust`, which may be null, TN1015 and TN1016. Its file is read where it is on this machine;
/// with `fetches` also where it has to come.
Status checkServed(registry::Registry &registry, const registry::Version &version,
                   const signing::Trust *trust, bool fetches);

class RegistryRepository final : public ModelRepository {
public:
  /// TN1001, TN1003, TN1005 where there is nothing to serve; TN0804 where what is named is no
  /// engine, or no engine is at the alias. With `trust` versions without a signature of somebody
  /// who is trusted are not served: TN1015, TN1016.
  static Result<std::unique_ptr<RegistryRepository>> open(const RegistryAddress &address,
                                                          Selection selection,
                                                          std::optional<signing::Trust> trust,
                                                          Log log);
  ~RegistryRepository() override;
  /// Moves an alias back from `version` as `tenon registry rollback` does, and gives the version
  /// that it is at then. TN1006, TN1012. Any thread.
  static Result<int64_t> rollback(const std::string &folder, const registry::Reference &reference,
                                  int64_t version, const std::string &reason);

  Result<std::vector<FoundModel>> scan() const override;
  Result<FoundModel> find(const std::string &name) const override;
  void watch(std::function<void(const std::string &name)> onChange) override;
  void provide(const std::vector<RemoteFile> &files, OnFile onEnd) override;
  std::string metrics() const override;

private:
  static constexpr size_t kFetches = 4; ///< at once

  RegistryRepository(Selection selection, registry::Registry registry,
                     std::optional<signing::Trust> trust, Log log)
      : selection(std::move(selection)), trust(std::move(trust)), log(std::move(log)),
        registry(std::move(registry)), files(this->registry.files()) {}
  /// The data that the engine was calibrated or tested with (--data of push), which its requests
  /// are compared with; none where it names none, or it cannot be had.
  std::optional<registry::Version> dataOf(const registry::Version &version);
  /// Its aliases and tags, as people find it by them.
  std::vector<std::string> labelsOf(const registry::Version &version);
  /// Versions, checked, of which the first is preferred; a model with a problem where that cannot
  /// be served.
  FoundModel resolve(const std::vector<registry::Version> &versions);
  /// The version's engine on this machine; of a version of several files among the others, in a
  /// folder of the server's own.
  Result<std::string> engineOf(const registry::Version &version);
  /// What config.pbtxt beside the engine says; nothing where there is none.
  Status readConfig(const registry::Version &version, const std::string &engine, FoundModel &model);
  bool isSelected(const registry::Version &version) const;
  using Wanted = std::map<std::string, std::vector<int64_t>>;
  /// Which versions each model is to have, by name, the preferred one first; 0: the alias is gone.
  Result<Wanted> wanted();
  /// Whether the model is to have other versions.
  bool follow(const std::string &name, const std::vector<int64_t> &numbers);
  void tell(const std::string &what, const Status &problem);
  /// One look; the names of models that are others now.
  std::vector<std::string> poll();
  void run(const std::function<void(const std::string &name)> &onChange);

  const Selection selection;
  const std::optional<signing::Trust> trust;
  const Log log;
  registry::Registry registry;                      ///< the thread's, once it runs
  const std::shared_ptr<registry::BlobStore> files; ///< the registry's
  Wanted passedOver;                    ///< by name: versions that are not selected; the same
  std::optional<ScratchFolder> folders; ///< with versions of several files; the same
  std::map<std::string, std::string> troubles; ///< that were told, by what they are of; the same
  mutable std::mutex mutex;
  std::condition_variable wake;
  bool isEnding = false;                     ///< with the mutex
  std::map<std::string, FoundModel> present; ///< with the mutex
  std::thread thread;
  boost::asio::thread_pool fetching{kFetches};
};

} // namespace tenon::server

// The version at an alias of a registry as the one model of a server, which follows the alias. A
// thread looks where it is, and reads a new version's file whole before the server hears of it.

#pragma once

#include "registry/Registry.h"
#include "server/protocol/Log.h"
#include "server/repository/ModelRepository.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace tenon::server {

/// "registry:", which begins what is served from one.
inline constexpr std::string_view kRegistryScheme = "registry:";

/// What a server asks of a version before it serves it: TN0804 where it is no engine, TN1005; with
/// `trust`, which may be null, TN1015 and TN1016.
Status checkServed(registry::Registry &registry, const registry::Version &version,
                   const signing::Trust *trust);

class RegistryRepository final : public ModelRepository {
public:
  /// `what` is NAME@ALIAS. TN1001, TN1003, TN1004, TN1005 where there is nothing to serve; TN0804
  /// where it is no engine. With `trust` versions without a signature of somebody who is trusted
  /// are not served: TN1015, TN1016.
  static Result<std::unique_ptr<RegistryRepository>> open(const std::string &folder,
                                                          const std::string &what,
                                                          std::optional<signing::Trust> trust,
                                                          Log log);
  ~RegistryRepository() override;
  /// Moves the alias of `what` back from `version` as `tenon registry rollback` does, and gives the
  /// version that it is at then. TN1006, TN1012. Any thread.
  static Result<int64_t> rollback(const std::string &folder, const std::string &what,
                                  int64_t version, const std::string &reason);

  Result<std::vector<FoundModel>> scan() const override;
  Result<FoundModel> find(const std::string &name) const override;
  void watch(std::function<void(const std::string &name)> onChange) override;

private:
  RegistryRepository(std::string folder, registry::Reference reference,
                     std::optional<signing::Trust> trust, Log log)
      : folder(std::move(folder)), reference(std::move(reference)), trust(std::move(trust)),
        log(std::move(log)) {}
  /// The file of the data that the engine was calibrated or tested with (--data of push), which its
  /// requests are compared with; empty where it names none, or gc took it.
  std::string dataOf(registry::Registry &registry, const registry::Version &version) const;
  /// The version that the alias is at, checked; a model with a problem where that cannot be served.
  Result<FoundModel> resolve(registry::Registry &registry) const;
  /// One poll; says whether another version is to be served.
  bool poll();
  void run(const std::function<void(const std::string &name)> &onChange);

  const std::string folder;
  const registry::Reference reference;
  const std::optional<signing::Trust> trust;
  const Log log;
  std::optional<registry::Registry> opened; ///< the thread's
  Status trouble;                           ///< of the last poll; the thread's
  mutable std::mutex mutex;
  std::condition_variable wake;
  FoundModel present;    ///< under the mutex
  bool isEnding = false; ///< under the mutex
  std::thread thread;
};

} // namespace tenon::server

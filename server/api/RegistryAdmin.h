// The registry that a server follows: for its page what was gated and promoted, and the promotions
// and rollbacks that a person asks for; for programs everything of it (RegistryRequests). Threads
// of its own wait for the disk and for other processes.

#pragma once

#include "registry/Registry.h"
#include "server/api/RegistryRequests.h"
#include "server/repository/Selection.h"
#include "support/Result.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::server {

class RegistryAdmin {
public:
  /// Called once, by the executor's thread, with JSON or why there is none. Not called once the
  /// admin is gone.
  using OnAnswer = std::function<void(Result<std::string>)>;

  /// Null where nothing of a registry is served.
  /// With `trusted`, paths of PEM files, only what is signed by one of them is promoted.
  static std::unique_ptr<RegistryAdmin> of(const std::optional<Selection> &selection,
                                           RegistryAddress address,
                                           std::vector<std::string> trusted, PushFile pushFile,
                                           boost::asio::any_io_executor executor);
  /// Waits for what is under way.
  ~RegistryAdmin();

  const Selection &selection() const { return served; }

  /// Of what a model follows: {"name", "alias", "version", "rules", "signers", "versions": [...],
  /// "events":
  /// [...]}, the newest first, 200 at most of each. The model is served.
  void query(const std::string &model, OnAnswer onAnswer);
  /// registry::describe of the lineage of the version that the model's alias is at.
  void lineage(const std::string &model, OnAnswer onAnswer);
  /// Moves the model's alias to a version: `settings` is {"version": 3, "expected": 2, "reason":
  /// "..."}. `expected`, which may be missing, is where the alias has to be, else TN1006. TN0806,
  /// and what Registry::promote gives; `by` goes into the history.
  void promote(const std::string &model, std::string_view settings, std::string by,
               OnAnswer onAnswer);
  /// Moves the alias back: `settings` is {"expected": 3, "reason": "..."}.
  void rollback(const std::string &model, std::string_view settings, std::string by,
                OnAnswer onAnswer);

  /// A request of a program, by RegistryRequests; the one who asks is who the registry's tokens or
  /// the server's say.
  void ask(const Question &asked, std::string body, OnAnswer onAnswer);
  /// A version's file, hashed.
  void file(const Question &asked, std::function<void(Result<RegistryFile>)> onFile);
  /// Whether somebody may push, before any of the file is taken.
  void admit(const Question &asked, std::function<void(Result<PushCall>)> onCall);
  void push(PushCall call, std::string path, OnAnswer onAnswer);

private:
  RegistryAdmin(Selection served, RegistryAddress address, std::vector<std::string> trusted,
                PushFile pushFile, boost::asio::any_io_executor executor)
      : served(std::move(served)), address(std::move(address)), trusted(std::move(trusted)),
        pushFile(std::move(pushFile)), executor(std::move(executor)) {}
  /// What this server would refuse to serve is not promoted through it.
  Status checkServed(registry::Registry &registry, const registry::Reference &version) const;
  /// Does `work` by a thread.
  template <typename Value>
  void submit(std::function<Result<Value>()> work, std::function<void(Result<Value>)> onAnswer);
  void submit(std::string by, std::function<Result<std::string>(registry::Registry &)> work,
              OnAnswer onAnswer);
  Result<registry::Registry> openFor(const Question &asked) const;

  const Selection served;
  const RegistryAddress address;
  const std::vector<std::string> trusted;
  const PushFile pushFile;
  const boost::asio::any_io_executor executor;
  /// Several: a file that is hashed keeps nobody waiting who moves an alias.
  boost::asio::thread_pool threads{4};
};

} // namespace tenon::server

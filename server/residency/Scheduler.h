// What gives a version its work while it is in memory: batching, or another scheduler. Residency
// asks it what waits and runs, and notifies it of what becomes of the version; it knows nothing of
// requests.

#pragma once

#include "server/ipc/ModelInfo.h"
#include "server/worker_pool/Instance.h"
#include "support/Result.h"

#include <cstddef>
#include <string>

namespace tenon::server {

class Scheduler {
public:
  virtual ~Scheduler() = default;

  /// What the worker is to prove of the version when it is first loaded.
  virtual BatchPolicy policy() const = 0;
  /// Checks what the worker told of the version against its configuration.
  virtual Status check() const = 0;
  /// What there is to say of a version that is ready, in a sentence; empty: nothing.
  virtual std::string describe() const = 0;

  /// The version's instances take runs.
  virtual void resume() = 0;
  /// An instance has answered in its request slot.
  virtual void answered(Instance &instance) = 0;
  /// The worker ended while the instance ran.
  virtual void lost(Instance &instance, const Status &why) = 0;
  /// The worker that had the version ended, and what ran there otherwise than in an instance.
  /// Whether anything did.
  virtual bool workerEnded(const Status &why) = 0;
  /// The version is not loaded again: what waits ends.
  virtual void fail(const Status &why) = 0;

  virtual size_t waiting() const = 0; ///< requests
  virtual size_t running() const = 0;
  bool isIdle() const { return waiting() == 0 && running() == 0; }
};

} // namespace tenon::server

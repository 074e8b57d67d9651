// The life of the worker: its start, its end and whom that is blamed on.

#include "server/scheduler/Models.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include <sys/wait.h>

namespace tenon::server {
namespace {

/// A worker that ends at once is started this often at most.
constexpr std::chrono::milliseconds kRestartPeriod{200};
constexpr unsigned kMostCrashes = 2;

/// Whether a process ended by a fault of its own, not by somebody who killed it.
bool isCrash(int how) {
  if (WIFSIGNALED(how)) {
    int signal = WTERMSIG(how);
    return signal != SIGKILL && signal != SIGTERM && signal != SIGINT && signal != SIGHUP;
  }
  return WIFEXITED(how) && WEXITSTATUS(how) != 0;
}

std::string describeEnd(int how) {
  return WIFSIGNALED(how) ? fmt::format("was ended by signal {}", WTERMSIG(how)) : fmt::format("exited with {}", WEXITSTATUS(how));
}

} // namespace

void Models::startWorker() {
  lastStart = Clock::now();
  WorkerProcess::Events events;
  events.onMessage = [this](ControlMessage message) { handle(std::move(message)); };
  events.onAnswers = [this] { collectAnswers(); };
  events.onEnd = [this](int how) { workerEnded(how); };
  Result<std::unique_ptr<WorkerProcess>> started = WorkerProcess::start(executor, options.workerCommand, std::move(events));
  if (!started.isOk()) {
    options.log(started.status().toString());
    restart.expires_after(kRestartPeriod * 5);
    restart.async_wait([this](boost::system::error_code error) {
      if (!error) {
        startWorker();
      }
    });
    return;
  }
  worker = std::move(*started);
  ++starts;
  std::map<uint64_t, std::shared_ptr<Version>> known = std::move(byKey);
  byKey.clear();
  for (auto &[key, version] : known) {
    loadAgain(version);
  }
}

void Models::workerEnded(int how) {
  options.log(fmt::format("the worker process {}; it is started again", describeEnd(how)));
  collectAnswers(); // those that it gave before its end
  worker.reset();
  sentKey = 0;
  std::vector<std::shared_ptr<Job>> lost;
  std::vector<Version *> blamed;
  for (auto &[version, instance] : running) {
    lost.insert(lost.end(), instance->jobs.begin(), instance->jobs.end());
    instance->jobs.clear();
    blamed.push_back(version);
  }
  running.clear();
  for (std::shared_ptr<Job> &job : lost) {
    end(job, Status::error(ErrorId::WorkerLost, fmt::format("the worker process {} while it ran the request", describeEnd(how)), "the server's log tells more; the worker is started again"));
  }
  Version *loading = firstLoading();
  if (loading && !blamed.empty() && isCrash(how)) {
    // The one that loads or one of those that run: the next worker loads all before it runs any, and so tells which.
    runsAfterLoads = true;
    blamed.clear();
  } else if (loading && blamed.empty()) {
    blamed.push_back(loading);
  }
  std::sort(blamed.begin(), blamed.end());
  blamed.erase(std::unique(blamed.begin(), blamed.end()), blamed.end());
  for (Version *version : blamed) {
    version->crashes += isCrash(how);
  }
  std::map<uint64_t, std::shared_ptr<Version>> known = byKey;
  for (auto &[key, version] : known) {
    version->instances.clear();
    if (version->crashes >= kMostCrashes) {
      byKey.erase(key);
      settle(version, Status::error(ErrorId::ModelQuarantined, fmt::format("model '{}' version {} ended its worker process {} times and is not loaded again", version->model, version->number, version->crashes),
                                    "load it again once the engine was replaced"));
    } else {
      finishRetired(*version); // what it ran is answered
    }
  }
  restart.expires_at(std::max(Clock::now(), lastStart + kRestartPeriod));
  restart.async_wait([this](boost::system::error_code error) {
    if (!error) {
      startWorker();
    }
  });
}

Version *Models::firstLoading() const {
  // Loads go one by one, in the order of their keys.
  for (auto &[key, version] : byKey) {
    bool waitsForOthers = version->needsLoad && waitsForRoom;
    if (version->state == VersionState::Loading && !waitsForOthers) {
      return version.get();
    }
  }
  return nullptr;
}

void Models::releaseRuns() {
  if (!runsAfterLoads || firstLoading()) {
    return;
  }
  runsAfterLoads = false;
  std::map<uint64_t, std::shared_ptr<Version>> held = byKey;
  for (auto &[key, version] : held) {
    dispatch(*version);
  }
}

} // namespace tenon::server

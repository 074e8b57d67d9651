// The front process: a server of HTTP/1.1, HTTP/2 and gRPC over a ModelServer, at one port, with
// one thread for all of it.

#pragma once

#include "server/api/RegistryRequests.h"
#include "server/monitoring/MonitoringOptions.h"
#include "server/protocol/Log.h"
#include "server/repository/DraftRepository.h"
#include "server/repository/Selection.h"
#include "support/Result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// Whose requests to language models may go before others.
enum class Urgent : uint8_t { None, Admin, All };

struct ServerOptions {
  std::string models; ///< an engine file, a folder of them or a Triton folder; unless `selection`
  std::optional<Selection> selection; ///< of the registry
  RegistryAddress registry;
  /// PEM files of keys and authorities: only models that one of them has signed are loaded. Any are
  /// where it is empty.
  std::vector<std::string> trusted;
  DraftOptions draft;
  std::string name; ///< of the one model that there is; empty: models have the names of their files
  bool isLenient = false;
  std::string address = "127.0.0.1";
  uint16_t port = 8000; ///< 0: one that is free
  std::string tokenFile;
  Urgent urgent = Urgent::None;
  bool isInsecure = false; ///< another address than loopback is allowed without tokens
  /// PEM files of TLS, both or none.
  std::string certificates, key;
  uint64_t maxBody = uint64_t(64) << 20;
  uint64_t maxPush = uint64_t(16) << 30; ///< of a file that is pushed, which goes to the disk
  PushFile pushFile;                     ///< puts such a file into the registry
  /// What all requests hold together: bodies, tensors and replies; more is refused. 0: a third of
  /// the memory that the process may use, at most 1 GiB.
  uint64_t maxMemory = 0;
  size_t maxConnections = 1024;
  size_t maxQueued = 256;
  /// Bytes that loaded models may take on the CPU, and on each GPU; 0: any.
  uint64_t memoryBudget = 0, gpuMemoryBudget = 0;
  uint64_t users = 0, tokens = 0; ///< as ResidencyOptions has them
  std::vector<std::string> gpus;  ///< that models may run on, as findGpus gives them
  unsigned threads = 0;           ///< of a run; 0: all usable CPUs
  /// How long a client may take for the header of a request, and between two pieces of its body or
  /// of the reply: see Progress.
  std::chrono::milliseconds slowest{10'000};
  std::chrono::milliseconds idle{75'000};  ///< a connection without a request
  std::chrono::milliseconds drain{30'000}; ///< for requests accepted before the end
  MonitoringOptions monitoring;
  std::vector<std::string> workerCommand; ///< a program that calls runWorker
  std::string version;                    ///< of the server
  Log log;
  /// Called once the server listens, with its port.
  std::function<void(uint16_t)> onListening;
};

/// Serves until SIGTERM or SIGINT, then answers what was accepted and returns. TN0801 to TN0804
/// before anything is served.
Status serve(const ServerOptions &options);

} // namespace tenon::server

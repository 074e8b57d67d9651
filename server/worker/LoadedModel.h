// An engine in a worker and its instances: threads with a session each that wait at their
// request slots. A language model has its TextService instead.

#pragma once

#include "runtime/capi/Handles.h"
#include "server/ipc/Control.h"
#include "server/ipc/ModelInfo.h"
#include "server/ipc/RequestSlot.h"
#include "server/ipc/SharedMemory.h"
#include "server/worker/Generation.h"
#include "server/worker/GroupWatch.h"
#include "support/memory/AlignedBuffer.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace tenon::server {

/// The shared buffers of a worker by number. Any thread.
class SharedBufferTable {
public:
  void add(uint32_t number, std::unique_ptr<SharedMemory> buffer);
  /// A run that uses it keeps it.
  void drop(uint32_t number);
  /// Waits for the shared buffer: it is on its way over the socket while the run that names it
  /// comes through shared memory.
  std::shared_ptr<SharedMemory> find(uint32_t number);

private:
  std::mutex lock;
  std::condition_variable added;
  std::map<uint32_t, std::shared_ptr<SharedMemory>> buffers;
};

using capi::takeStatus;

class LoadedModel {
public:
  /// Reads the engine from the message's descriptor, proves what the message asks of batches, and
  /// makes a session and a thread for each instance. `doneEvent` is told of answers.
  static Result<std::unique_ptr<LoadedModel>> load(ControlMessage &request,
                                                   SharedBufferTable &buffers, int doneEvent);
  /// Waits for runs that go on.
  ~LoadedModel();

  const ModelInfo &info() const { return modelInfo; }

private:
  struct Instance {
    std::unique_ptr<SharedMemory> memory; ///< the request slot
    Descriptor wake;
    capi::SessionHandle session;
    std::thread thread;
  };

  LoadedModel(SharedBufferTable &buffers, int doneEvent, uint64_t key)
      : buffers(buffers), doneEvent(doneEvent), key(key) {}
  /// Reads an engine into `into`. TN1016 where the bytes must have a hash, and have another.
  Result<capi::EngineHandle> open(Descriptor file, const std::string &sha256, bool isOnGpu,
                                  AlignedBuffer &into);
  /// What was done since the last call is this phase of the load.
  void ends(std::string_view phase);
  Status describe(const BatchPolicy &policy, unsigned threads,
                  std::chrono::steady_clock::time_point loadBegan);
  Status addInstance(Descriptor slot, Descriptor wake, unsigned threads);
  /// Makes it the language model that the engine holds.
  Status becomeLanguageModel(unsigned threads, uint64_t running, const LoadRequest &wanted);
  bool holdsLanguageModel() const;
  /// The thread of an instance.
  void serve(Instance &instance);
  /// The outputs, or that they need more room, are in the request slot when this returns ok.
  Status run(Instance &instance, RequestSlot &slot);
  void watchRanks();
  /// A run did: GPUs of a group that one has left are of no use any more.
  void failed(const Status &status) const;

  SharedBufferTable &buffers;
  int doneEvent;
  uint64_t key;              ///< of the version
  uint64_t gpus = 1;         ///< that share the memory of a session, where there are any
  AlignedBuffer image;       ///< the engine file; it outlives the engine
  capi::EngineHandle engine; ///< null where `generation` has it
  AlignedBuffer draftImage;
  std::unique_ptr<generate::LanguageModel> draft; ///< of a language model; null: none
  std::unique_ptr<Generation> generation;         ///< of a language model
  ModelInfo modelInfo;
  std::chrono::steady_clock::time_point phaseBegan = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Instance>> instances;
  std::atomic<bool> isEnding = false;
  std::unique_ptr<GroupWatch> watch; ///< of an engine with ranks
};

} // namespace tenon::server

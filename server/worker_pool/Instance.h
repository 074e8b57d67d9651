// What the front has of a model in a worker: sessions with their request slots, by which it hands
// each one run at a time, and the socket of a language model's texts.

#pragma once

#include "server/ipc/Descriptor.h"
#include "server/ipc/RequestSlot.h"
#include "server/ipc/SharedMemory.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace tenon::server {

struct Instance {
  uint64_t key = 0;                     ///< of the load that made it
  std::unique_ptr<SharedMemory> memory; ///< its request slot
  Descriptor wake;
  uint64_t heldBytes = 0; ///< of the session, after its last run

  RequestSlot &slot() const { return *reinterpret_cast<RequestSlot *>(memory->data()); }
};

struct LoadedPlaces {
  std::vector<std::unique_ptr<Instance>> instances;
  Descriptor textSocket; ///< the worker closes its end unless the model is a language model
};

} // namespace tenon::server

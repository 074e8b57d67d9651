// A session of a model in a worker: its request slot, by which the front hands it one run at a
// time.

#pragma once

#include "server/ipc/Descriptor.h"
#include "server/ipc/RequestSlot.h"
#include "server/ipc/SharedMemory.h"

#include <cstdint>
#include <memory>

namespace tenon::server {

struct Instance {
  uint64_t key = 0;                     ///< of the load that made it
  std::unique_ptr<SharedMemory> memory; ///< its request slot
  Descriptor wake;
  uint64_t heldBytes = 0; ///< of the session, after its last run

  RequestSlot &slot() const { return *reinterpret_cast<RequestSlot *>(memory->data()); }
};

} // namespace tenon::server

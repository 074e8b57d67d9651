// One list for the process.

#include "runtime/library/IdleHandles.h"

#include <mutex>
#include <new>

namespace tenon::library {
namespace {

struct Idle {
  std::string library;
  int ordinal;
  void *handle;
  Idle *next;
};

std::mutex mutex;
Idle *first = nullptr; ///< never freed: sessions that live in globals may outlast it

} // namespace

void *acquireIdleHandle(const std::string &library, int ordinal) {
  std::lock_guard<std::mutex> lock(mutex);
  for (Idle **at = &first; *at; at = &(*at)->next) {
    Idle *idle = *at;
    if (idle->ordinal == ordinal && idle->library == library) {
      void *handle = idle->handle;
      *at = idle->next;
      delete idle;
      return handle;
    }
  }
  return nullptr;
}

void releaseHandle(const std::string &library, int ordinal, void *handle) {
  if (!handle) {
    return;
  }
  try {
    std::lock_guard<std::mutex> lock(mutex);
    first = new Idle{library, ordinal, handle, first};
  } catch (const std::bad_alloc &) {
    // Destructors call this: what there is no memory to remember stays unused.
  }
}

} // namespace tenon::library

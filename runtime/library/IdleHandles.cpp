// One list for the process.

#include "runtime/library/IdleHandles.h"

#include <map>
#include <mutex>

namespace tenon::library {
namespace {

struct Idle {
  std::mutex mutex;
  std::multimap<std::string, void *> handles;
};

Idle &idle() {
  // Never destroyed: sessions that live in other globals may outlast it.
  static Idle *list = new Idle();
  return *list;
}

} // namespace

void *takeIdleHandle(const std::string &key) {
  Idle &list = idle();
  std::lock_guard<std::mutex> lock(list.mutex);
  auto found = list.handles.find(key);
  if (found == list.handles.end()) {
    return nullptr;
  }
  void *handle = found->second;
  list.handles.erase(found);
  return handle;
}

void giveBackHandle(const std::string &key, void *handle) {
  if (handle) {
    Idle &list = idle();
    std::lock_guard<std::mutex> lock(list.mutex);
    list.handles.emplace(key, handle);
  }
}

} // namespace tenon::library

// The file of a push while it comes, in a folder of its own that goes with it: what is cut off
// leaves nothing, and what a killed server left is removed by the next one's push.

#pragma once

#include "server/api/RegistryRequests.h"
#include "support/Result.h"
#include "support/files/ScratchFolder.h"

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::server {

class PushedFile {
public:
  /// Counts in `count`, which outlives it, as long as it lives.
  PushedFile(std::atomic<unsigned> &count, PushCall call) : count(count), asked(std::move(call)) {
    ++count;
  }
  ~PushedFile();
  PushedFile(const PushedFile &) = delete;
  PushedFile &operator=(const PushedFile &) = delete;

  Status create();
  Status append(std::string_view bytes);
  const PushCall &call() const { return asked; }
  std::string path() const { return folder->path() + "/" + asked.file; }

private:
  std::atomic<unsigned> &count;
  PushCall asked;
  std::optional<ScratchFolder> folder;
  int fd = -1;
};

} // namespace tenon::server

// The file of an engine, held open from the first load of a version: for the next ones it is that
// file, whatever has its name by then.

#pragma once

#include "server/ipc/Descriptor.h"
#include "support/Result.h"

#include <cstdint>
#include <string>

#include <sys/stat.h>

namespace tenon::server {

class EngineFile {
public:
  /// Opens the file at `path`, or looks whether the one that is open is as it was then
  Status open(const std::string &path);
  /// Has one that was opened by another: nobody writes to it.
  void take(Descriptor opened);
  void close() { file = Descriptor(); }
  bool isOpen() const { return file.isOpen(); }
  int descriptor() const { return file.get(); }
  /// In bytes, once it was opened.
  uint64_t size() const { return static_cast<uint64_t>(info.st_size); }

private:
  Descriptor file;
  struct stat info = {}; ///< as it was when it was opened
};

} // namespace tenon::server

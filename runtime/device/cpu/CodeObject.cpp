// Writes the code to a sealed memfd and opens it by its /proc path. The descriptor stays open with
// the handle: the loader knows objects by path, and a reused number would give it the old object.

#include "runtime/device/cpu/CodeObject.h"

#include "support/text/Text.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tenon::runtime {
namespace {

Status loadError(std::string_view what, const char *why) {
  return Status::error(ErrorId::EngineBadCode, strCat(what, ": ", why),
                       "check that /proc is mounted, or compile the model again");
}

bool writeAll(int fd, Bytes bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

} // namespace

Result<std::unique_ptr<CodeObject>> CodeObject::load(Bytes code) {
  int fd = memfd_create("tenon-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    return loadError("cannot create an anonymous file", std::strerror(errno));
  }
  std::unique_ptr<CodeObject> object(new CodeObject(fd, nullptr));
  if (!writeAll(fd, code) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    return loadError("cannot write the code object", std::strerror(errno));
  }
  object->handle = dlopen(strCat("/proc/self/fd/", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object->handle) {
    return loadError("cannot load the code object", dlerror());
  }
  return object;
}

CodeObject::~CodeObject() {
  if (handle) {
    dlclose(handle);
  }
  ::close(fd);
}

TenonKernelFn CodeObject::find(const std::string &symbol) const {
  return reinterpret_cast<TenonKernelFn>(dlsym(handle, symbol.c_str()));
}

} // namespace tenon::runtime

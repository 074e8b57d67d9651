// A file is the hash of the code, then the code; it appears complete or not at all.

#include "runtime/device/cuda/CubinCache.h"

#include "support/AtomicFile.h"
#include "support/Hash.h"
#include "support/MappedFile.h"
#include "support/Text.h"

#include <cstdlib>
#include <cstring>
#include <sys/stat.h>

namespace tenon::runtime::cuda {
namespace {

/// Changes when the way in which code is made does.
constexpr int kGeneration = 1;

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Makes a folder and those above it; whether it is there shows when a file is written.
void makeFolders(const std::string &path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    ::mkdir(path.substr(0, slash).c_str(), 0700);
  }
  ::mkdir(path.c_str(), 0700);
}

} // namespace

std::string CubinCache::keyOf(Bytes ptx, int capability, int driverVersion) {
  Hasher hasher;
  hasher.update(strCat("generation ", kGeneration, " driver ", driverVersion, " capability ",
                       capability, "\n"));
  hasher.update(ptx);
  return hasher.digest().hex();
}

std::string CubinCache::pathOf(const std::string &key) const {
  return strCat(root, "/cubin/", key, ".cubin");
}

std::optional<std::vector<std::byte>> CubinCache::find(const std::string &key) const {
  if (root.empty()) {
    return std::nullopt;
  }
  Result<FileReader> file = FileReader::open(pathOf(key));
  if (!file.isOk() || file->size() <= sizeof(Hash128)) {
    return std::nullopt;
  }
  Hash128 expected;
  std::vector<std::byte> code(file->size() - sizeof(Hash128));
  if (!file->read(0, std::as_writable_bytes(std::span(&expected, 1))).isOk() ||
      !file->read(sizeof(Hash128), code).isOk() || hashBytes(code) != expected) {
    return std::nullopt;
  }
  return code;
}

void CubinCache::keep(const std::string &key, Bytes cubin) const {
  if (root.empty()) {
    return;
  }
  makeFolders(root + "/cubin");
  Result<AtomicFile> file = AtomicFile::create(pathOf(key));
  Hash128 hash = hashBytes(cubin);
  bool isWritten = file.isOk() && file->append(std::as_bytes(std::span(&hash, 1))).isOk() &&
                   file->append(cubin).isOk();
  if (isWritten) {
    (void)file->commit().isOk();
  }
}

std::string defaultCacheFolder() {
  std::string base = environment("XDG_CACHE_HOME");
  if (base.empty() || base[0] != '/') {
    std::string home = environment("HOME");
    base = home.empty() ? "" : home + "/.cache";
  }
  return base.empty() ? "" : base + "/tenon";
}

} // namespace tenon::runtime::cuda

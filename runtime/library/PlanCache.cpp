// A file is the hash of the plan, then the plan; it appears complete or not at all. Relies on the
// folder being the user's own and writable to nobody else; it is not used otherwise.

#include "runtime/library/PlanCache.h"

#include "support/Hash.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/files/PrivateFolder.h"
#include "support/text/Text.h"

#include <unistd.h>

namespace tenon::library {
namespace {

/// Changes when what is kept of a plan does.
constexpr int kGeneration = 1;
/// Plans are far smaller; a larger file is none of ours.
constexpr uint64_t kMaxBytes = 64 << 20;

} // namespace

std::string PlanCache::keyOf(Bytes call, std::span<const int64_t> sizes, size_t alignment) const {
  std::string text = strCat("generation ", kGeneration, " library ", version, " device ", device,
                            " alignment ", alignment, " workspace ", workspaceLimit, "\n");
  // At once: hashing in pieces takes 8 KB of the runtime.
  for (Bytes bytes : {call, std::as_bytes(sizes)}) {
    text.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }
  return hashText(text).hex();
}

std::string PlanCache::pathOf(const std::string &key) const {
  return strCat(folder, "/library/", key, ".plan");
}

std::optional<std::vector<std::byte>> PlanCache::find(const std::string &key) const {
  if (folder.empty()) {
    return std::nullopt;
  }
  Result<PrivateFolder> plans = PrivateFolder::open(folder + "/library");
  int entry = plans ? plans->openEntry(key + ".plan") : -1;
  if (entry < 0) {
    return std::nullopt;
  }
  Result<FileReader> file = FileReader::open(strCat("/proc/self/fd/", entry));
  ::close(entry);
  if (!file || file->size() <= sizeof(Hash128) || file->size() > kMaxBytes) {
    return std::nullopt;
  }
  Hash128 expected;
  std::vector<std::byte> plan(file->size() - sizeof(Hash128));
  if (!file->read(0, std::as_writable_bytes(std::span(&expected, 1))) ||
      !file->read(sizeof(Hash128), plan) || hashBytes(plan) != expected) {
    return std::nullopt;
  }
  return plan;
}

void PlanCache::keep(const std::string &key, Bytes plan) const {
  if (folder.empty()) {
    return;
  }
  if (!PrivateFolder::open(folder + "/library")) {
    return;
  }
  Result<AtomicFile> file = AtomicFile::create(pathOf(key));
  Hash128 hash = hashBytes(plan);
  if (file && file->append(std::as_bytes(std::span(&hash, 1))) && file->append(plan)) {
    (void)file->commit().isOk();
  }
}

} // namespace tenon::library

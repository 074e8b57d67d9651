// Implements copying between structs of two releases.

#include "runtime/capi/Structs.h"

#include "runtime/capi/StatusObject.h"

#include <algorithm>
#include <cstring>

namespace tenon::capi {
namespace {

/// More than any release will have; a larger size was never set.
constexpr size_t kMaxBytes = 4096;

Status checkSize(size_t size) {
  return size >= sizeof(size_t) && size <= kMaxBytes
             ? Status::ok()
             : badArgument("struct_size of a struct is not its sizeof");
}

} // namespace

Status readStruct(const void *from, void *to, size_t size) {
  if (!from) {
    return Status::ok();
  }
  size_t given = *static_cast<const size_t *>(from);
  TENON_TRY(checkSize(given));
  const char *bytes = static_cast<const char *>(from);
  if (given > size &&
      std::any_of(bytes + size, bytes + given, [](char byte) { return byte != 0; })) {
    return badArgument("a struct requests something that this release of Tenon does not support");
  }
  std::memcpy(to, from, std::min(given, size));
  return Status::ok();
}

Status fillStruct(const void *from, void *to, size_t size) {
  size_t room = *static_cast<const size_t *>(to);
  TENON_TRY(checkSize(room));
  std::memcpy(static_cast<char *>(to) + sizeof(size_t),
              static_cast<const char *>(from) + sizeof(size_t),
              std::min(room, size) - sizeof(size_t));
  return Status::ok();
}

} // namespace tenon::capi

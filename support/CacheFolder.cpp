// The folder that the XDG base directory specification gives.

#include "support/CacheFolder.h"

#include <cstdlib>

namespace tenon {

std::string userCacheFolder() {
  const char *base = std::getenv("XDG_CACHE_HOME");
  if (base && base[0] == '/') {
    return std::string(base) + "/tenon";
  }
  const char *home = std::getenv("HOME");
  return home && home[0] != '\0' ? std::string(home) + "/.cache/tenon" : "";
}

} // namespace tenon

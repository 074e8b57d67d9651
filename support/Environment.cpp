// The cache folder is the one that the XDG base directory specification gives.

#include "support/Environment.h"

#include <cstdlib>

namespace tenon {

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string userCacheFolder() {
  std::string base = environment("XDG_CACHE_HOME"), home = environment("HOME");
  if (base.starts_with('/')) {
    return base + "/tenon";
  }
  return home.empty() ? "" : home + "/.cache/tenon";
}

} // namespace tenon

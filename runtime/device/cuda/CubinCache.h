// Machine code that the driver made from PTX, kept in the user's cache folder so that it is made
// once. A file that is damaged or cannot be written costs time, never a failure.

#pragma once

#include "support/ByteSpan.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::runtime::cuda {

class CubinCache {
public:
  /// An empty folder keeps nothing.
  explicit CubinCache(std::string cacheFolder) : root(std::move(cacheFolder)) {}

  const std::string &folder() const { return root; }

  /// What names the code: equal keys give equal code.
  static std::string keyOf(Bytes ptx, int capability, int driverVersion);

  std::optional<std::vector<std::byte>> find(const std::string &key) const;
  void keep(const std::string &key, Bytes cubin) const;

private:
  std::string pathOf(const std::string &key) const;

  std::string root;
};

/// $XDG_CACHE_HOME/tenon or ~/.cache/tenon.
std::string defaultCacheFolder();

} // namespace tenon::runtime::cuda

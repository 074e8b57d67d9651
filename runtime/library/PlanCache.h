// What it cost to choose and make plans, kept in the user's cache folder: a later process takes
// them from there. A file that is damaged, or that the library does not take, costs time, never a
// failure.

#pragma once

#include "runtime/library/Library.h"

#include <optional>

namespace tenon::library {

class PlanCache {
public:
  /// `versionText` is that of the library. An empty folder keeps nothing.
  PlanCache(const Options &options, std::string versionText)
      : folder(options.cacheFolder), device(options.device), version(std::move(versionText)),
        workspaceLimit(options.workspaceLimit) {}

  /// What names a plan: equal keys give equal plans.
  std::string keyOf(Bytes call, std::span<const int64_t> sizes, size_t alignment) const;
  std::optional<std::vector<std::byte>> find(const std::string &key) const;
  void keep(const std::string &key, Bytes plan) const;

private:
  std::string pathOf(const std::string &key) const;

  std::string folder;
  std::string device;
  std::string version;
  size_t workspaceLimit;
};

} // namespace tenon::library

// What a server takes from a registry, as its command line says it.

#pragma once

#include "registry/Reference.h"
#include "registry/Search.h"
#include "support/Result.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon::server {

/// "registry:", which begins what is served from one.
inline constexpr std::string_view kRegistryScheme = "registry:";

/// Where a registry is, and what its files may take on this machine's disk where they come from
/// another; 0: what registry/ObjectStore.h says.
struct RegistryAddress {
  std::string where;
  uint64_t cacheSize = 0;
};

struct Selection {
  /// NAME@ALIAS. Several of one object are versions of one model: the first answers requests that
  /// name none, the others what traffic gives them.
  std::vector<registry::Reference> named;
  std::string everywhere;          ///< an alias: of every object that has it the engine is served
  std::string space;               ///< "team/": of `everywhere`, only objects of this namespace
  std::vector<registry::Tag> tags; ///< that versions of `everywhere` have

  /// Nothing is served but the registry itself.
  bool isEmpty() const { return named.empty() && everywhere.empty(); }
  /// As it was written, for people.
  std::string text() const;
  /// What a model of the server follows, the one that answers first; empty where it is not of this.
  std::vector<registry::Reference> of(const std::string &model) const;
  /// The one that is followed; none where there may be several models.
  std::optional<registry::Reference> only() const;
};

/// `models` are registry:NAME@ALIAS, registry:@ALIAS or registry:NAMESPACE/@ALIAS, `select` is
/// KEY=VALUE,KEY=VALUE or empty. TN1004 for a reference that names no alias; TN0105.
Result<Selection> parseSelection(std::span<const std::string> models, const std::string &select);

} // namespace tenon::server

// What a registry must hold, derived from its events alone, each of which is checked against what
// was before it: who did it might, the version was there, the alias was where it says, and the gate
// let it pass.

#pragma once

#include "registry/Folder.h"
#include "registry/Gate.h"
#include "registry/History.h"
#include "registry/Registry.h"
#include "registry/Token.h"
#include "support/Result.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon::registry {

/// The files that a push has stored, as its event says.
std::vector<Blob> filesOf(const Json &pushed);

struct Replay {
  using Place = std::pair<std::string, std::string>; ///< an object and an alias
  using Number = std::pair<std::string, int64_t>;    ///< an object and a version
  struct Object {
    std::string kind;
    int64_t newest = 0;
  };
  struct Alias {
    int64_t at = 0;
    std::vector<int64_t> origins; ///< that rollbacks go to, the next one last
    Terms terms;
    std::map<int64_t, std::vector<GateResult>> results; ///< under these terms, by version
  };

  std::map<std::string, Object> objects;
  std::map<Number, Json> versions; ///< what the events say of them
  std::set<Number> deleted;
  std::map<Place, Alias> aliases;
  std::map<Number, std::map<std::string, double>> metrics; ///< that gates measured last
  std::map<std::string, Json> tokens;                    ///< by name: role, hash, created, revoked
  std::map<Number, std::vector<std::string>> signatures; ///< of a version, the newest first
  uint64_t signatureCount = 0;                           ///< how many there are of all

  /// TN1011 where the event cannot have happened.
  Status take(const Event &event);

  /// As much of a version as its signatures are compared with.
  Version versionOf(const Number &version) const;

private:
  Status mayDo(const Event &event) const;
  Status push(const Event &event);
  Status move(const Event &event);
  Status gate(const Event &event);
  Status token(const Event &event);
  bool has(const Number &version) const {
    return versions.contains(version) && !deleted.contains(version);
  }
};

} // namespace tenon::registry

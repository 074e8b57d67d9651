// The families of language models, each a row of switches: what one decoder does otherwise than
// another. Relies on GGUF's names of architectures.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::language {

/// Which elements of a head turn together.
enum class Rope : uint8_t {
  Pairs,  ///< 2i and 2i + 1
  Halves, ///< i and i + half of what is turned
};

struct Family {
  std::string_view name; ///< general.architecture
  Rope rope = Rope::Halves;
  /// Biases of queries, keys and values.
  bool hasProjectionBias = false;
  /// Queries and keys are normalized, head by head, before they are turned.
  bool normalizesHeads = false;
  /// Every so many layers one turns nothing; 0 for none.
  int64_t noRopeEvery = 0;
};

/// Null for a family that is not in the table.
const Family *familyOf(std::string_view name);

} // namespace tenon::language

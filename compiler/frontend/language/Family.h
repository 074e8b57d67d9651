// The families of language models, each a row of switches: what one decoder does otherwise than
// another. Relies on GGUF's names of architectures.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::language {

/// Which elements of a head turn together.
enum class Rope : uint8_t {
  None,   ///< none: positions have embeddings
  Pairs,  ///< 2i and 2i + 1
  Halves, ///< i and i + half of what is turned
};

enum class Activation : uint8_t { Silu, Gelu, GeluTanh };

struct Family {
  std::string_view name; ///< general.architecture
  Rope rope = Rope::Halves;
  /// Where the file names no base.
  double ropeBase = 10000;
  /// Layers with a window turn by a base of their own; 0 where they turn as all do.
  double windowRopeBase = 0;
  /// Every so many layers one turns nothing; 0 for none.
  int64_t noRopeEvery = 0;
  /// LayerNorm with a bias in place of RMSNorm.
  bool hasLayerNorm = false;
  /// What attention and feed-forward give is normalized before it is added.
  bool normalizesResults = false;
  /// Queries and keys are normalized, head by head, before they are turned.
  bool normalizesHeads = false;
  /// Biases of queries, keys and values.
  bool hasProjectionBias = false;
  /// Attention and feed-forward may read the same input, as a key says.
  bool mayBeParallel = false;
  Activation activation = Activation::Silu;
  /// The activation of one product scales another.
  bool isGated = true;
  /// Embeddings are multiplied by the root of their width.
  bool scalesEmbedding = false;
  /// Queries see some of the last keys only, as a key says.
  bool hasWindow = false;
  /// Every so many layers one has no window; 0 where each has one.
  int64_t noWindowEvery = 0;
  /// What scores and logits stay below, where the file does not say; 0 for no cap.
  double scoreCap = 0, logitCap = 0;
  /// Models of so many layers scale scores by the width of the residual stream over the heads, not
  /// by that of a head; no key says so.
  int64_t layersOfWideScale = 0;
};

/// Null for a family that is not in the table.
const Family *familyOf(std::string_view name);

} // namespace tenon::language

// Two ways to compute a model, tensor by tensor: what `compare` prints. Free of MLIR.
#pragma once

#include "tools/debug/Debug.h"

#include <limits>

namespace tenon::debug {

/// One of the two: an engine file, a model that is compiled here, or a model by the reference.
struct Side {
  enum class Kind : uint8_t { Engine, Compiled, Reference };
  Kind kind = Kind::Reference;
  std::string path;
};

struct CompareRequest {
  Side a, b;                ///< b is what a is measured against
  DebugRequest base;        ///< without a model: how models are compiled, the inputs, the seed
  bool wantsLayers = false; ///< inner values too
  std::optional<double> relative; ///< the project's tolerance for the type where there is none
  std::optional<double> absolute;
  std::vector<std::pair<std::string, std::string>> map; ///< a's name and b's of the same value
};

/// Errors are infinite where one side is not a number or infinite and the other is not.
struct LayerError {
  std::string name;    ///< b's
  std::string nameInA; ///< where it differs
  std::string
      node; ///< of the model that makes it: "Conv '/layer1/conv1'"; empty if no model is given
  std::string dtype;
  std::vector<int64_t> dims;
  double absolute = 0;
  double relative = 0;  ///< where the value of b is not 0
  double largest = 0;   ///< magnitude of a value of b that is a number
  double ulps = 0;      ///< of the coarser type; 0 for integers
  int64_t beyond = 0;   ///< elements out of tolerance
  std::string mismatch; ///< not empty if they cannot be compared
};

struct LayerReport {
  std::vector<LayerError> layers; ///< in the model's order, or b's where none is given
  std::vector<std::string> onlyInA, onlyInB;
  /// Whether outputs of a compiled side change in any bit where inner values are stored.
  bool tapsChangeOutputs = false;
};

/// Values are matched by `map`, then by name; outputs that are left, as many on both sides, in
/// their order. It is an error when nothing matches.
Result<LayerReport> compareLayers(const CompareRequest &request);

} // namespace tenon::debug

// How far two ways to compute a model are apart, output by output or layer by layer.

#pragma once

#include "support/json/Json.h"
#include "tools/debug/Layers.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/target/KernelLibraries.h"
#include "tools/tenon/target/TargetFlags.h"
#include "tools/tenon/task/TaskListener.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

struct CompareModelsRequest {
  /// An engine, a model for the reference interpreter, or compiled:MODEL; b is what a is measured
  /// against.
  std::string a, b;
  bool wantsLayers = false; ///< inner values too
  InputFlags inputs;
  KernelFlags kernels;
  TargetFlags target;                       ///< of models that are compiled
  std::optional<double> relative, absolute; ///< tolerances; without them those of the element type
  std::vector<std::string> map;             ///< NAME_IN_A=NAME_IN_B: the same value under two names
  unsigned threads = 0;                     ///< that compile; 0 for all usable CPUs
};

/// Runs both on equal inputs. An error where nothing of one has a counterpart in the other.
Result<debug::LayerReport> compareModels(const CompareModelsRequest &request,
                                         TaskListener &listener);

/// The first tensor out of tolerance; null where there is none.
const debug::LayerError *firstBeyond(const debug::LayerReport &report);
/// tenon.compare/1 without its schema, and a table for people.
Json describeLayers(const debug::LayerReport &report);
std::string layersText(const debug::LayerReport &report);

} // namespace tenon::tool

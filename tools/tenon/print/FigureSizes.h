// Which variant of an engine is shown, and for which sizes of its inputs: what the user asks for,
// what was measured, or what is most likely.

#pragma once

#include "engine/Reader.h"
#include "tools/view/Sizes.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// The best variant for this machine's CPU; the engine's first where that runs none of them.
std::string variantOfThisMachine(const engine::EngineFile &file);

/// The dims of all inputs with those of --shape, else the likely ones. Empty where nothing is asked
/// for and no likely sizes satisfy what the engine needs of them.
Result<view::InputDims> figureDims(const engine::EngineFile &file,
                                   const std::vector<std::string> &shapes);

/// Whether a session with inputs of these dims takes a plan that knows them (--optimize-for).
bool hasOwnPlan(const engine::EngineFile &file, const std::string &level,
                const view::InputDims &dims);

/// The variant and the sizes of a profile by `tenon bench --regions --json`; empty where it has
/// none.
struct ProfileOrigin {
  std::string level;
  std::vector<std::string> shapes;
};
ProfileOrigin originOf(std::string_view profile);

} // namespace tenon::tool

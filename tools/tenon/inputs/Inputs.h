// The input tensors of a run: from files, from pictures, or seeded, matched to the inputs of an
// engine by name. It relies on the plan for names, types and which dimensions are free.

#pragma once

#include "runtime/core/Engine.h"
#include "runtime/tensors/Tensor.h"

#include <map>
#include <string>
#include <vector>

namespace tenon::tool {

struct InputFlags {
  std::vector<std::string> files;
  std::vector<std::string> shapes;
  std::vector<std::string> fills;
  std::vector<std::string> session; ///< values of its symbols: "pages=64"
  int64_t batch = 0;
  uint64_t seed = 0;
  std::vector<double> mean;
  std::vector<double> deviation;
  std::string layout;
  bool resize = false;
};

/// The files of --inputs, without the names of inputs before them.
std::vector<std::string> inputPaths(const InputFlags &flags);

/// The values that --session gives.
Result<std::vector<runtime::SymbolValue>> sessionSymbols(const InputFlags &flags);

/// One tensor for each input of the engine, in its order. Inputs without a file are an error when
/// any file is given; without files all are seeded.
Result<std::vector<Tensor>> makeInputs(const InputFlags &flags, const runtime::Engine &engine);

/// The model's own key-value texts that the engine carries; empty when it carries none.
std::map<std::string, std::string> metadataOf(const engine::EngineFile &file);

} // namespace tenon::tool

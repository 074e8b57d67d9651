// The sizes for which cuts are priced, where the user names none.
#pragma once

#include "compiler/shard/Costs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace tenon::shard {

/// A kind of run and its sizes.
struct LikelyRun {
  std::string name;
  Symbols symbols;
};

/// Tokens of the prompt among them.
inline constexpr int64_t kLikelyPrompt = 2048;

/// Of a step of a decoder, a token after `context` others and a prompt; of another model, one run
/// at the likely sizes.
std::vector<LikelyRun> likelyRuns(mlir::ModuleOp module, mlir::func::FuncOp function,
                                  int64_t context);

} // namespace tenon::shard

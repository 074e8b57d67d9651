// What rounding may do to a model's results: evaluations in which every operation that rounds is
// disturbed by a little more than a rounding. Where they differ, so may any sound compilation.
#pragma once

#include "compiler/reference/Interpreter.h"

namespace tenon::debug {

/// The results of `function`, with operands and results of operations that round disturbed at
/// random, by a few units in the last place of their types.
Result<std::vector<reference::Tensor>> disturbedResults(mlir::func::FuncOp function,
                                                        tn::WeightStore &weights,
                                                        llvm::ArrayRef<reference::Tensor> inputs,
                                                        uint64_t seed);

/// Where `actual` cannot be explained by `samples`, evaluations of the same model; empty if
/// nowhere.
std::string unexplained(llvm::ArrayRef<reference::Tensor> samples, const reference::Tensor &actual);

} // namespace tenon::debug

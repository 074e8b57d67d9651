// A function after dispatch, evaluated with each of its regions as machine code of a CPU level:
// what stays outside of regions (packing, reshapes) is evaluated by the reference interpreter, as
// the plan would.
#pragma once

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/graph/WeightStore.h"
#include "compiler/reference/Interpreter.h"
#include "engine/Level.h"

#include <functional>
#include <vector>

namespace tenon::ops {

using Tensors = std::vector<reference::Tensor>;

/// Runs a region on tensors: its source, its operands, tensors like its results, and the values of
/// its symbols.
using RegionRunner = std::function<Result<Tensors>(
    const codegen::RegionSource &source, llvm::ArrayRef<reference::Tensor> operands,
    const Tensors &results, const std::vector<int64_t> &symbols)>;

/// `count` gets the number of regions that were run.
Result<Tensors> walkRegions(mlir::func::FuncOp function, tn::WeightStore &weights,
                            const Tensors &inputs, const RegionRunner &runner, int &count);

/// The kernel that is selected for a region on a level of this machine or of an emulator
/// (foreign/Emulation.h).
Result<Tensors> runRegionCode(const codegen::RegionSource &source, engine::CpuLevel level,
                              llvm::ArrayRef<reference::Tensor> operands, const Tensors &results,
                              const std::vector<int64_t> &symbols);

} // namespace tenon::ops

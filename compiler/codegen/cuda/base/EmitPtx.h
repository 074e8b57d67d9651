// From MLIR to PTX: the last lowering to the LLVM and NVVM dialects, then LLVM's optimizer and
// NVPTX backend. Each call has its own LLVMContext, so calls may run in parallel.
#pragma once

#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace tenon::codegen::cuda {

/// The dialects that `lowerToNvvm` accepts and the interfaces that it and `emitPtx` use; the
/// context of every module given to them must have been made from this registry.
void registerEmitDialects(mlir::DialectRegistry &registry);

/// scf, cf, arith, math (what VectorMath.h and MathCuda.h leave of it), affine.apply, index, vector
/// and ub to the LLVM dialect; the index type becomes an integer of `indexBits`. NVVM stays.
mlir::LogicalResult lowerToNvvm(mlir::ModuleOp module, unsigned indexBits);

/// PTX without comments. `module` is in the LLVM and NVVM dialects. A function that the PTX would
/// call but not contain is an error.
llvm::Expected<std::string> emitPtx(mlir::ModuleOp module, const target::Target &gpu);

/// The same from LLVM IR.
llvm::Expected<std::string> emitPtx(llvm::Module &module, const target::Target &gpu);

} // namespace tenon::codegen::cuda

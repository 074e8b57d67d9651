// From MLIR to an ELF relocatable: the last lowering to the LLVM dialect, then LLVM's optimizer and
// backend of one level. Each call has its own LLVMContext, so calls may run in parallel.
#pragma once

#include "engine/Level.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace tenon::codegen::cpu {

/// What the name of a function of the user's begins with in the code that calls it.
inline constexpr llvm::StringLiteral kUserPrefix = "user.";

/// The dialects that `lowerToLlvmDialect` accepts and the interfaces that it and `emitObject` use;
/// the context of every module given to them must have been made from this registry.
void registerEmitDialects(mlir::DialectRegistry &registry);

/// func, scf, cf, arith, math (already expanded, see VectorMath.h), index, memref, vector and ub to
/// the LLVM dialect. What LLVM would need a library call for is refused with a diagnostic at the
/// operation.
mlir::LogicalResult lowerToLlvmDialect(mlir::ModuleOp module);

/// Functions with external linkage are the object's symbols. No call is introduced but to memcpy,
/// memset and memmove. `module` is in the LLVM dialect. `guarded` names a kernel whose accesses are
/// checked, if one is to be.
llvm::Expected<std::string> emitObject(mlir::ModuleOp module, engine::CpuLevel level,
                                       llvm::StringRef guarded = {});

/// The same from LLVM IR.
llvm::Expected<std::string> emitObject(llvm::Module &module, engine::CpuLevel level);

/// Names of the symbols that a relocatable object uses and does not have, and of those that it
/// gives to others.
llvm::Expected<std::vector<std::string>> undefinedSymbols(llvm::StringRef object);
llvm::Expected<std::vector<std::string>> definedSymbols(llvm::StringRef object);

} // namespace tenon::codegen::cpu

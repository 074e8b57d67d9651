// A module in, the text or object of a target machine out: the frame that every code generator
// shares. Each brings its machine, its own passes and what it changes in the module before them.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"

namespace llvm {
class TargetMachine;
}

namespace tenon::codegen {

struct Emission {
  llvm::TargetMachine &machine;
  llvm::CodeGenFileType type;
  /// Called once, on the verified module.
  llvm::function_ref<void(llvm::Module &)> prepare;
  llvm::function_ref<void(llvm::FunctionPassManager &)> addPasses;
};

/// Translates, verifies, prepares, optimizes and emits. No function is known by its name, as
/// generated code has no library to call; what the caller must not find undefined, it checks in the
/// result.
llvm::Expected<std::string> emitModule(mlir::ModuleOp module, const Emission &emission);
llvm::Expected<std::string> emitModule(llvm::Module &module, const Emission &emission);

} // namespace tenon::codegen

// A program as a static library: the kernels' bitcode of one core, calls of them and the constants,
// compiled by LLVM. Free of MLIR.
#pragma once

#include "compiler/codegen/edge/Program.h"
#include "support/Result.h"

namespace tenon::codegen::edge {

/// A kind of core that a library can be for.
struct Core {
  std::string_view name; ///< "cortex-m4", behind elf:
  std::string_view triple, cpu, features, abi;
};
/// Nothing for a name that is of none.
const Core *coreNamed(std::string_view name);
/// All of them, with commas.
std::string coreNames();

/// The archive has one object, which needs no other. The stack is the deepest of NAME_run, by what
/// LLVM gave each function and who calls whom; code has what lies in its functions' sections, the
/// self-test too. An internal error (TN0901) where LLVM fails.
Result<Footprint> makeLibrary(const Program &program, const std::string &name, const Core &core);

} // namespace tenon::codegen::edge

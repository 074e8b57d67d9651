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

/// What LLVM made for a core.
struct Library {
  std::string archive;    ///< an ar file with one object, which needs no other
  int64_t stackBytes = 0; ///< deepest of NAME_run, by what LLVM gave each function and who calls whom
  int64_t codeBytes = 0;  ///< instructions, with what else they have in their sections
};

/// An error, TN0902 or another of the compiler's own, where LLVM fails.
Result<Library> makeLibrary(const Program &program, const std::string &name, const Core &core);

} // namespace tenon::codegen::edge

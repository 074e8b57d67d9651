// What cached code depends on besides its region and level: these sources and LLVM's version. A file
// of its own because every change of the sources compiles it again.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cpu/SourceHash.inc"
#include "llvm/Config/llvm-config.h"

namespace tenon::codegen::cpu {

llvm::StringRef codegenVersion() { return TENON_CODEGEN_HASH " LLVM " LLVM_VERSION_STRING; }

} // namespace tenon::codegen::cpu

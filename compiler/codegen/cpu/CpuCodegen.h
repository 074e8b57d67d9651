// Region text in, machine code out, for one CPU level: the interface of CPU codegen. Each call
// is a pure function of its arguments (equal bytes for equal input), so calls may run in parallel
// and be cached.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/dispatch/KernelChoice.h"
#include "compiler/target/Target.h"
#include "engine/Expr.h"
#include "engine/Level.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::codegen {
template <typename Region> class FamilyTable;
}

namespace tenon::codegen::cpu {

class Region;
/// The kernel families among which a compilation chooses (base/KernelFamily.h).
using KernelFamilies = FamilyTable<Region>;
/// All that this compiler has, in the order in which they are preferred where predictions are
/// close.
const KernelFamilies &kernelFamilies();

/// A compiled region. Its symbol has the type TenonKernelFn (engine/KernelAbi.h): `buffers` are the
/// region's inputs then its outputs, `sizes` the values of the region's symbols.
struct Kernel {
  std::string symbol;
  /// ELF relocatable with that one global symbol; may refer to the support object's symbols.
  std::string object;
  /// Over `sizes`: grid points, and bytes of scratch a thread.
  std::vector<engine::ExprTerm> grid;
  std::vector<engine::ExprTerm> scratch;
  /// As of codegen::RegionStep.
  bool mayOverwriteInputs = false;
  /// What ranks exchange, in place of all that.
  std::optional<RegionStep> exchange = std::nullopt;
};

/// Of kernelFamilies().
std::vector<std::string> familyNames();
/// KernelFamily::revision; 0 if there is none of that name.
unsigned revisionOf(llvm::StringRef family);
/// Features of levels (engine/Level.h) on which choices depend: levels that agree in them, at the
/// same rates, get the same kernels.
uint32_t choiceFeatures(const KernelFamilies &families = kernelFamilies());
/// Null for most families, and if there is none of that name.
const dispatch::Approximation *approximationOf(llvm::StringRef family);
/// Which family computes a region of the text that codegen::outline gives.
llvm::Expected<dispatch::KernelSelection>
selectKernel(llvm::StringRef text, const target::Target &target,
             const dispatch::KernelRequest &request,
             const KernelFamilies &families = kernelFamilies());

/// Every configuration of every family that takes such a region.
llvm::Expected<std::vector<dispatch::KernelCandidate>>
kernelCandidates(llvm::StringRef text, const target::Target &target,
                 const KernelFamilies &families = kernelFamilies());

/// `symbol` names the kernel; `text` is RegionSource::text, with the choice as
/// `tn.kernel`. A guarded kernel checks every access
/// (Guard.h).
llvm::Expected<Kernel> compileRegion(llvm::StringRef text, llvm::StringRef symbol,
                                     const target::Target &target, bool guarded = false,
                                     const KernelFamilies &families = kernelFamilies());
/// For a level with the rates of a server.
inline llvm::Expected<Kernel> compileRegion(llvm::StringRef text, llvm::StringRef symbol,
                                            engine::CpuLevel level, bool guarded = false) {
  return compileRegion(text, symbol, target::cpuTarget(level), guarded);
}

/// Whether a level multiplies rounded rows (tn.round_blocks) as integers: those of x86 that have an
/// instruction for it.
bool multipliesRoundedRows(engine::CpuLevel level);

/// The objects that kernels may be linked with, each by the function of it that they call: the
/// micro-kernels of one kind of product, their packing, and, by memcpy, what LLVM may call.
std::vector<std::string> supportNames();
/// Those that some kernels call, in that order; memcpy is always one of them.
llvm::Expected<std::vector<std::string>> supportOf(llvm::ArrayRef<llvm::StringRef> kernels);
/// One of these objects.
llvm::Expected<std::string> supportObject(engine::CpuLevel level, llvm::StringRef name);

/// An object file of the user's as a relocatable: a shared object that imports nothing becomes one,
/// others are given back as they are.
llvm::Expected<std::string> relocatableOf(llvm::StringRef object);

/// The functions of an object file of the user's; an error says why engines for a level cannot hold
/// it, or that it lacks one of `symbols`.
llvm::Expected<std::vector<std::string>>
functionsOf(llvm::StringRef object, llvm::ArrayRef<std::string> symbols, engine::CpuLevel level);

/// Links objects into a shared object that exports `symbols` and imports nothing. Of `libraries`,
/// object files of the user's, it gets those that define what the objects call by kUserPrefix
/// (base/Emit.h).
llvm::Expected<std::string> linkCode(llvm::ArrayRef<llvm::StringRef> objects,
                                     llvm::ArrayRef<llvm::StringRef> symbols,
                                     llvm::ArrayRef<llvm::StringRef> libraries = {});

} // namespace tenon::codegen::cpu

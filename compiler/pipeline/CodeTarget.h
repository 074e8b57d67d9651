// What regions are compiled for: a CPU level or a GPU architecture, each with its compiler and
// linker. A new device is a function here.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/dispatch/KernelChoice.h"
#include "compiler/kernels/Library.h"
#include "compiler/pipeline/CompileCache.h"
#include "compiler/target/Target.h"
#include "engine/Level.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tenon::pipeline {

/// The user's, of which code that calls them gets what it calls.
using KernelLibraries = std::vector<std::shared_ptr<const kernels::Library>>;

/// How many buffers and symbols a region has.
struct RegionShape {
  size_t inputs = 0;
  size_t outputs = 0;
  size_t symbols = 0;
};

/// Its functions are pure and may run in parallel.
struct CodeTarget {
  /// As stored in the engine's variant.
  std::string level;
  /// What else shapes its code: part of every cache key.
  std::string mode;
  std::function<llvm::Expected<codegen::CompiledRegion>(
      llvm::StringRef text, llvm::StringRef symbol, const RegionShape &shape)>
      compile;
  /// Which kernel computes a region of this text (without `tn.kernel`).
  std::function<llvm::Expected<dispatch::KernelSelection>(llvm::StringRef text,
                                                          const dispatch::KernelRequest &request)>
      select;
  /// Every configuration of every family that takes such a region.
  std::function<llvm::Expected<std::vector<dispatch::KernelCandidate>>(llvm::StringRef text)>
      candidates;
  /// The code object of a variant from the objects of its regions; `symbols` are its kernels.
  std::function<llvm::Expected<std::string>(llvm::ArrayRef<llvm::StringRef> objects,
                                            llvm::ArrayRef<llvm::StringRef> symbols,
                                            const CompileCache &cache)>
      link;
};

/// `rates` are those by which times are predicted. The families must outlive the target.
CodeTarget cpuTarget(engine::CpuLevel level, const target::Target &rates, bool guarded,
                     const codegen::cpu::KernelFamilies &families = codegen::cpu::kernelFamilies(),
                     const KernelLibraries &libraries = {});
/// The levels in groups that get the same kernels everywhere, in order of their first.
std::vector<std::vector<engine::CpuLevel>>
groupsOfLevels(llvm::ArrayRef<engine::CpuLevel> levels,
               const codegen::cpu::KernelFamilies &families = codegen::cpu::kernelFamilies());
CodeTarget cudaTarget(const target::Target &gpu, const KernelLibraries &libraries = {});

/// Of all devices.
std::vector<std::string> kernelFamilyNames();
/// KernelFamily::revision; 0 if there is none of that name.
unsigned kernelFamilyRevision(llvm::StringRef family);
/// What the results of a family have other roundings by; null for most.
const dispatch::Approximation *approximationOf(llvm::StringRef family);

} // namespace tenon::pipeline

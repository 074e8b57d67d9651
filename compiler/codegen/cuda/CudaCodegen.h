// Region text in, PTX and library calls out, for one NVIDIA architecture: the interface of GPU
// codegen. Each call is a pure function of its arguments (equal bytes for equal input, with or
// without a CUDA toolkit on the machine), so calls may run in parallel and be cached.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/dispatch/KernelChoice.h"
#include "compiler/target/Target.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::kernels {
struct Library;
}

namespace tenon::codegen::cuda {

/// Of the kernel families of NVIDIA GPUs.
std::vector<std::string> familyNames();
/// KernelFamily::revision; 0 if there is none of that name.
unsigned revisionOf(llvm::StringRef family);
/// Which family computes a region of the text that codegen::outline gives, and what each answered.
/// An error says why none takes it, or not as requested.
llvm::Expected<dispatch::KernelSelection> selectKernel(llvm::StringRef text,
                                                       const target::Target &gpu,
                                                       const dispatch::KernelRequest &request);

/// Every configuration of every family that takes such a region.
llvm::Expected<std::vector<dispatch::KernelCandidate>> kernelCandidates(llvm::StringRef text,
                                                                        const target::Target &gpu);

/// `text` is RegionSource::text, with the choice as `tn.kernel` on @kernel. The names of the
/// region's kernels begin with `symbol`. A kernel takes its buffers as pointers to device memory,
/// then its sizes as 64-bit integers, then its tensor maps as arrays of 128 bytes. Buffers and
/// views start on a 16-byte border. `libraries` are the user's.
llvm::Expected<CompiledRegion>
compileRegion(llvm::StringRef text, llvm::StringRef symbol, const target::Target &gpu,
              const std::vector<std::shared_ptr<const kernels::Library>> &libraries = {});

/// Whether a kernel is one of RegionStep::collectiveKernels, which are in no region's PTX; and its
/// PTX, by its name.
bool isCollective(llvm::StringRef kernel);
llvm::Expected<std::string> collectivePtx(llvm::StringRef kernel, const target::Target &gpu);

/// One PTX module of the PTX of many regions, ended by a zero byte.
llvm::Expected<std::string> linkPtx(llvm::ArrayRef<llvm::StringRef> modules);

} // namespace tenon::codegen::cuda

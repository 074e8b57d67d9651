// Kernels of the user's on GPUs: what is checked of a library before anything is compiled.
#pragma once

#include "compiler/codegen/cuda/library/UserPtx.h"
#include "compiler/kernels/Library.h"
#include "support/Status.h"

namespace tenon::codegen::cuda {

/// Whether the PTX has the kernels that its description names, with parameters and threads as the
/// description says, for the target. TN0307 for what is not there or does not run on the target,
/// TN0306 where the description says something else. Kernels for CPUs are left out.
Status checkUserPtx(const kernels::Library &library, const target::Target &gpu);

/// Parameters of the entry behind those that the description passes: Triton's pointers to scratch
/// memory, which are zero.
size_t unnamedParameters(const kernels::Kernel &kernel, const PtxEntry &entry);

} // namespace tenon::codegen::cuda

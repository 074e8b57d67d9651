// PTX that no C++ stands for, interpreted thread by thread: what nvcc and Triton make of kernels
// over numbers of 32 and 64 bits. Calls, textures, tensor cores and what lanes of a warp do
// together are not there; a kernel that has them fails where it gets to one. All parameters are of
// 64 bits.

#pragma once

#include "test/unit/runtime/FakeKernels.h"

#include <memory>
#include <string>

namespace tenon::test {

/// As a real driver calls them.
constexpr int kLaunchTimeout = 702;
constexpr int kIllegalInstruction = 715;
constexpr int kMisalignedAddress = 716;

/// Null without an entry of that name. What a fault was is written to stderr.
std::unique_ptr<const KernelInfo> interpretedKernel(const std::string &module,
                                                    const std::string &entry);

} // namespace tenon::test

// Compiles a region for every level of this machine, runs it on seeded inputs and compares with the
// reference interpreter. What every codegen test of a region goes through.
#pragma once

#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/reference/Tensor.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "gtest/gtest.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::codegen::cpu {

/// `body` is the text of a module around `func.func @kernel`. `symbols` are the values of its
/// symbols. The grid is run in `pieces` calls, as threads would. With `ofLargest`, results may be
/// off by that part of the largest one instead of by the tolerance of their type. `change`, if
/// given, sees the seeded inputs first.
testing::AssertionResult
matchesReference(const std::string &text, const std::vector<int64_t> &symbols = {}, int pieces = 2,
                 double ofLargest = 0,
                 llvm::function_ref<void(std::vector<reference::Tensor> &)> change = {});

/// A module with one kernel: `signature` and `body` as in "(%x: tensor<4xf32>) -> tensor<4xf32>",
/// "%y = ...; return %y : tensor<4xf32>".
std::string kernelText(const std::string &strategy, const std::string &signature,
                       const std::string &body, const std::string &symbols = "");

/// Loads a kernel and runs it over its whole grid in `pieces` calls. `results` give the types and
/// dims of what is returned; `status`, which must be there if the kernel fails, gets its highest.
std::vector<reference::Tensor> runKernel(const Kernel &kernel, engine::CpuLevel level,
                                         llvm::ArrayRef<reference::Tensor> inputs,
                                         llvm::ArrayRef<reference::Tensor> results,
                                         const std::vector<int64_t> &symbols, int pieces,
                                         int32_t *status = nullptr);

/// What a kernel with bounds checks returns (engine/KernelAbi.h) where buffer `shortened` is said
/// to be a byte shorter than it is; -1 for none.
int32_t guardedStatus(const Kernel &kernel, engine::CpuLevel level,
                      llvm::ArrayRef<reference::Tensor> inputs,
                      llvm::ArrayRef<reference::Tensor> results,
                      const std::vector<int64_t> &symbols, int shortened = -1);

} // namespace tenon::codegen::cpu

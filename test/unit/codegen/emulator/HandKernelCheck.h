// Compiles a region with one emitter, runs its kernels on the emulated GPU on seeded inputs and
// compares with the reference interpreter.
#pragma once

#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/reference/Tensor.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tenon::codegen::cuda {

/// A region in a context of its own.
struct TestRegion {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> source;
  std::unique_ptr<RegionBuilder> region;

  mlir::ModuleOp kernels() const { return *region->kernels; }
};
/// One without operations, for kernels that are built op by op.
TestRegion emptyRegion(const std::string &symbol);

/// Adds a region's steps; false if it does not take the region, failure after a diagnostic.
using Emitter = std::function<mlir::FailureOr<bool>(RegionBuilder &region)>;
/// The first of these families that takes the region, in the configuration that it offers.
Emitter byFamily(std::vector<std::string> names);

/// How a region is run and compared.
struct RunOptions {
  std::vector<int64_t> symbols;
  double inputScale = 2;
  bool reversed = false;
  /// Changes the inputs; and what the kernels get of them, which the reference does not.
  std::function<void(llvm::MutableArrayRef<reference::Tensor>)> edit, poison;
  /// Results (number) that the kernels write over an input (number), as a plan lets them.
  std::vector<std::pair<unsigned, unsigned>> overwritten;
  /// Gets the bytes of the first result, if it is set.
  std::vector<std::byte> *result = nullptr;
  target::Target gpu = target::targetOf("sm_90");
};
testing::AssertionResult matchesReference(const std::string &text, const Emitter &emitter,
                                          const RunOptions &options);

/// `inputScale` is the range of the float inputs, whose numbers are seeded; `reversed` runs the
/// threads of a block from the last to the first.
testing::AssertionResult matchesReference(const std::string &text, const Emitter &emitter,
                                          const std::vector<int64_t> &symbols = {},
                                          double inputScale = 2, bool reversed = false);

/// The kernels' PTX.
llvm::Expected<std::string> emitTestPtx(const std::string &text, const Emitter &emitter,
                                        const target::Target &gpu);

/// Assembles PTX with ptxas where there is one: success with a message if not. Fails on spills.
testing::AssertionResult assembles(const std::string &ptx, const target::Target &gpu);

/// A module with one kernel, as RegionCheck.h's.
std::string regionText(const std::string &strategy, const std::string &signature,
                       const std::string &body, const std::string &symbols = "");

} // namespace tenon::codegen::cuda

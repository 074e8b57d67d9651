// Dispatches texts of `tn`: what regions they become, and what the record says of their edges.
// Relies on the parser, and on the verifier for what dispatch leaves.
#pragma once

#include "compiler/dispatch/Dispatch.h"
#include "compiler/graph/Tn.h"
#include "compiler/pipeline/SelectKernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

namespace tenon::dispatch {

using namespace mlir;

class DispatchTest : public ::testing::Test {
protected:
  DispatchTest() { context.loadDialect<tn::TnDialect, func::FuncDialect>(); }

  std::vector<std::string> runOnGpu(llvm::StringRef signature, llvm::StringRef body) {
    return run(signature, body, target::targetOf("sm_90"));
  }

  /// Dispatches a function body; each region as "strategy(op, op)".
  std::vector<std::string> run(llvm::StringRef signature, llvm::StringRef body,
                               const target::Target &profile = target::cpuTarget()) {
    std::string text = ("func.func @main" + signature + " {\n" + body + "\n}").str();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    pipeline::CodeTarget code =
        profile.isGpu() ? pipeline::cudaTarget(profile)
                        : pipeline::cpuTarget(engine::CpuLevel::X86_64_V3, profile, false);
    pipeline::WantedKernels none;
    pipeline::KernelSelector selector(code, none);
    if (!module || failed(selector.formRegions(*module, profile, records)) ||
        !selector.select(*module, records)) {
      ADD_FAILURE() << "dispatch failed";
      return {};
    }
    EXPECT_TRUE(succeeded(verify(*module)));
    std::vector<std::string> regions;
    module->walk([&](tn::RegionOp region) {
      std::vector<std::string> ops;
      for (Operation &op : region.getBody().front().without_terminator()) {
        ops.push_back(op.getName().stripDialect().str());
      }
      regions.push_back(region.getStrategy().str() + "(" + llvm::join(ops, ", ") + ")");
    });
    return regions;
  }

  /// The rule of the only edge between operations of these kinds.
  std::string ruleOf(llvm::StringRef producer, llvm::StringRef consumer) {
    std::string rule;
    for (const EdgeRecord &edge : records.edges) {
      if (edge.producer == producer && edge.consumer == consumer) {
        rule += edge.rule;
      }
    }
    return rule;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Records records;
};

using Regions = std::vector<std::string>;

} // namespace tenon::dispatch

// The whole way from a model file to an engine file. Options are a value; nothing is global.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/graph/WeightStore.h"
#include "compiler/opt/ConvertPrecision.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/CompileSummary.h"
#include "mlir/IR/BuiltinOps.h"

namespace tenon::pipeline {

/// How tests, tuners and the verbs under `debug` take part in a compilation.
struct CompileHooks {
  /// Run after the other passes of `optimize`: so tests plant wrong ones.
  std::vector<opt::Pass> extraPasses;
  /// Called with the module after each pass and each phase up to optimize, and with each target
  /// group's after dispatch, before `afterFormRegions`; an error ends the compilation with that
  /// error. May be null.
  std::function<Status(std::string_view pass, mlir::ModuleOp module, tn::WeightStore &weights)>
      afterPass;
  /// Called with each target group's module once its regions are formed, before their kernels are
  /// chosen and before `afterPhase`; an error ends the compilation with that error. May be null.
  std::function<Status(mlir::ModuleOp module, tn::WeightStore &weights)> afterFormRegions;
  /// Called with the module after import, normalize and optimize, and with each target group's
  /// after dispatch; may be null. It may change the module: so tests plant faults.
  std::function<void(Phase phase, mlir::ModuleOp module)> afterPhase;
  /// Among which CPU levels choose; never null. Those of one name are one to the compile cache.
  const codegen::cpu::KernelFamilies *cpuFamilies = &codegen::cpu::kernelFamilies();
};

Result<CompileSummary> compile(const CompileOptions &options, const CompileHooks &hooks = {});

} // namespace tenon::pipeline

// Passes of the user's: runs them and holds them to what they promise. Relies on the reference
// interpreter for the numbers, as `--verify` does.
#pragma once

#include "compiler/pipeline/Pipeline.h"

namespace tenon::pipeline {

class UserPasses {
public:
  UserPasses(const CompileOptions &compileOptions, tn::WeightStore &store)
      : options(compileOptions), weights(store) {}

  /// Runs those of the phase, in order. TN0406 names the pass that failed, left a graph that does
  /// not verify or changed the results too much, and the folder with the graph before it.
  Status run(Phase phase, mlir::ModuleOp module);
  /// Whether one ended in a crash, which may have damaged the module.
  bool isDamaged() const { return damaged; }

  const std::vector<PassInfo> &info() const { return done; }
  /// JSON for the engine.
  std::string record() const;

private:
  Status run(const UserPass &pass, mlir::ModuleOp module);
  /// What the pass did, checked in full.
  Status runChecked(const UserPass &pass, mlir::ModuleOp before, mlir::ModuleOp module);
  Status checkNumbers(const UserPass &pass, mlir::ModuleOp before, mlir::ModuleOp module,
                      PassInfo &info);
  /// Writes the graph, and says in the error where.
  Status failed(const UserPass &pass, const Status &why, mlir::ModuleOp before);

  const CompileOptions &options;
  tn::WeightStore &weights;
  std::vector<PassInfo> done;
  bool damaged = false;
};

} // namespace tenon::pipeline

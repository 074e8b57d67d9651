// Phases on disk: the IR of each as text, with the weights beside it, so that it can be read and
// started from again. Relies on weight ids being unique; each weight is one file in `weights/`.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "compiler/pipeline/Pipeline.h"
#include "mlir/IR/OwningOpRef.h"

#include <set>

namespace tenon::pipeline {

class PhaseDump {
public:
  /// An empty folder dumps nothing.
  explicit PhaseDump(std::string dumpFolder) : folder(std::move(dumpFolder)) {}

  /// Writes `<number>-<phase>.mlir` and the weights that it names and no earlier phase did.
  Status dumpModule(Phase phase, mlir::ModuleOp module, tn::WeightStore &weights);
  /// Writes any other file of a phase: `<number>-<phase><suffix>`.
  Status dumpFile(Phase phase, std::string_view suffix, std::string_view bytes) const;

private:
  std::string folder;
  std::set<std::string> written;
};

/// A module read back, and the phase it was dumped after; Codegen for the text of one region.
struct LoadedPhase {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Phase phase = Phase::Import;
};

/// TN0404 if the file is neither a dumped phase of `tn` nor the text of a region.
Result<LoadedPhase> loadPhase(const std::string &path, mlir::MLIRContext &context,
                              tn::WeightStore &weights);

/// The IR with locations, as dumps hold it.
std::string printModule(Phase phase, mlir::ModuleOp module);

} // namespace tenon::pipeline

// What the pipeline says in words and what it remembers: gaps, diagnostics, unresolved dims, the
// summary as a note.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/pipeline/Pipeline.h"
#include "mlir/IR/Diagnostics.h"

#include <vector>

namespace tenon::pipeline {

std::vector<frontend::ShapeOverride> toOverrides(const std::vector<ShapeArgument> &shapes);

/// TN0301 with one line a gap.
Status gapReport(const std::string &model, const std::vector<frontend::Gap> &gaps);

/// By which nodes the model takes fewer sizes than are declared.
std::vector<Narrowing> narrowings(mlir::ModuleOp module);

/// TN0305 for a strict compilation of a model that takes fewer sizes than are declared.
Status checkStrict(const CompileOptions &options, const std::vector<Narrowing> &narrowed);

/// Collects the first error that MLIR reports while it lives.
class DiagnosticText {
public:
  explicit DiagnosticText(mlir::MLIRContext &context);
  /// TN0742 for a failed pass.
  Status status(std::string_view pass) const;

private:
  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};

/// TN0742 if a dim is neither a constant nor an expression.
Status checkDims(mlir::ModuleOp module);

/// The texts that the model carries (class names, preprocessing) as a JSON object; none without
/// any.
std::optional<std::string> metadataRecord(mlir::ModuleOp module);

/// Whether the path names a phase written by --dump-phases.
bool isPhaseDump(const std::string &path);

/// The numbers of a summary, kept beside a cached engine.
std::string noteOf(const CompileSummary &summary);
std::optional<CompileSummary> summaryFromNote(std::string_view note);

} // namespace tenon::pipeline

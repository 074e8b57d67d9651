// The importer of PyTorch programs: an archive of torch.export.save becomes a `tn` module, or one
// error, or the list of everything in it that Tenon lacks. Relies on the `tn` and `func` dialects
// being loaded.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/frontend/pt2/wire/Program.h"
#include "compiler/graph/WeightStore.h"
#include "support/Result.h"

namespace tenon::pt2 {

/// Imports an archive. Weights enter `store` as views of the mapped file, which the store keeps
/// alive. Errors have the numbers TN0239 to TN0242; each names the entry, node or weight.
Result<frontend::ImportResult> importPt2(const std::string &path,
                                         const frontend::ImportOptions &options,
                                         mlir::MLIRContext &context, tn::WeightStore &store);

/// The same for a program in memory; its weights' bytes must live as long as the store.
Result<frontend::ImportResult> importProgram(const Program &program,
                                             const frontend::ImportOptions &options,
                                             mlir::MLIRContext &context, tn::WeightStore &store);

} // namespace tenon::pt2

// A model with gaps is refused with the error that `compile` gives.
#include "test/fault/files/ImportDoor.h"

#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/frontend/pt2/Pt2.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

namespace tenon::test {

Status importDoor(const std::string &path) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  tn::WeightStore store;
  TENON_ASSIGN(onnx::ImportResult imported, onnx::importOnnx(path, {}, context, store));
  return imported.gaps.empty() ? Status::ok()
                               : Status::error(ErrorId::ModelHasGaps, imported.gaps.front().why);
}

Status pt2Door(const std::string &path) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  tn::WeightStore store;
  TENON_ASSIGN(frontend::ImportResult imported, pt2::importPt2(path, {}, context, store));
  return imported.gaps.empty() ? Status::ok()
                               : Status::error(ErrorId::ModelHasGaps, imported.gaps.front().why);
}

} // namespace tenon::test

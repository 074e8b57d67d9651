// Models, all the way to `tn` and its verifier.
#include "test/fuzz/Fuzz.h"

#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  context.getDiagEngine().registerHandler([](mlir::Diagnostic &) { return mlir::success(); });
  tn::WeightStore store;
  Result<onnx::ImportResult> imported =
      onnx::importOnnx(fuzz::bytesOf(data, size), "", {}, context, store);
  if (imported && imported->gaps.empty() && imported->module &&
      mlir::failed(mlir::verify(*imported->module))) {
    __builtin_trap(); // a model that was taken has a sound module
  }
  return 0;
}

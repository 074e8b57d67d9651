// TensorFlow Lite models, all the way to `tn` and its verifier.
#include "test/fuzz/Fuzz.h"

#include "compiler/frontend/tflite/Tflite.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

#include <cstring>
#include <vector>

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  context.getDiagEngine().registerHandler([](mlir::Diagnostic &) { return mlir::success(); });
  // A mapped file begins at a page; these bytes may begin anywhere.
  std::vector<uint64_t> aligned(size / sizeof(uint64_t) + 1);
  std::memcpy(aligned.data(), data, size);
  tn::WeightStore store;
  Result<frontend::ImportResult> imported =
      tflite::importModel(std::as_bytes(std::span(aligned)).first(size), {}, context, store);
  if (imported && imported->gaps.empty() && imported->module &&
      mlir::failed(mlir::verify(*imported->module))) {
    __builtin_trap(); // a model that was taken has a sound module
  }
  return 0;
}

#include "compiler/frontend/onnx/NodeContext.h"
namespace tenon::onnx {
llvm::ArrayRef<OpRow> resizeRows() { return {}; }
} // namespace tenon::onnx

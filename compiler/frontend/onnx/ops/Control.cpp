#include "compiler/frontend/onnx/NodeContext.h"
namespace tenon::onnx {
llvm::ArrayRef<OpRow> controlRows() { return {}; }
} // namespace tenon::onnx

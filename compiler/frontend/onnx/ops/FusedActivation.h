// The activation that ONNX Runtime's fused operators have behind them.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// x behind attribute `activation`, whose parameters are given; x itself without it. Null for null.
mlir::Value activated(NodeContext &c, mlir::Value x, std::optional<double> alpha,
                      std::optional<double> beta);

} // namespace tenon::onnx

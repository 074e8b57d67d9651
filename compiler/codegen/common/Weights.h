// How kernels want constant weights to lie, as families say it before tn.pack is written
// (dispatch/WeightLayout.h).
#pragma once

#include "compiler/dispatch/WeightLayout.h"

#include <optional>

namespace tenon::codegen {

/// The number of the input that `operand` is, if it holds a weight that may be laid out.
std::optional<unsigned> packableInput(mlir::Value operand);

/// The weight of a convolution in panels of `panel` output channels of one group, [group, panel,
/// kernel..., input channel, output channel]; of a depthwise one in a single panel of all channels,
/// so that the weights of a tap lie as the data does. None if it may not be laid out.
std::optional<dispatch::WeightLayout> layoutInPanels(tn::ConvOp conv, int64_t panel);

} // namespace tenon::codegen

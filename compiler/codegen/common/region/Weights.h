// How kernels want constant weights to lie, as families say it before tn.pack is written
// (dispatch/WeightLayout.h).
#pragma once

#include "compiler/dispatch/WeightLayout.h"

#include <optional>

namespace tenon::codegen {

/// The number of the input that `operand` is, if it holds a weight that may be laid out.
std::optional<unsigned> packableInput(mlir::Value operand);

/// A matrix in panels of a dim: [panel, other dim, element of the panel].
tn::Packing panelsOf(int64_t dim, int64_t panel);

/// The same with words of so many elements of the other dim: [panel, word, element of the panel,
/// element of the word].
tn::Packing panelsOfWords(int64_t dim, int64_t panel, int64_t elements);

/// The weight of a convolution in panels of `panel` output channels, each of one of `groups` parts
/// of the output channels: [group, panel, kernel..., input channel, output channel]; without the
/// first dim if there is one group. With words of several input channels, these count words, and
/// the elements of a word are the last dim.
tn::Packing panelsOfOutputs(mlir::RankedTensorType weight, int64_t panel, int64_t groups,
                            int64_t elements = 1);
/// None if it may not be laid out.
std::optional<dispatch::WeightLayout> layoutInPanels(tn::ConvOp conv, int64_t panel, int64_t groups,
                                                     int64_t elements = 1);
/// That of a depthwise one in a single panel, so that the weights of a tap lie as the data does.
std::optional<dispatch::WeightLayout> layoutOfDepthwise(tn::ConvOp conv);

} // namespace tenon::codegen

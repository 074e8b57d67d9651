// Depthwise convolutions that take differences: where a filter finds edges, its results are small
// beside what they are made of, and what 8 bits lose of that is noise that all later layers read.
#pragma once

#include "compiler/frontend/onnx/wire/ExternalData.h"
#include "compiler/quant/Plan.h"
#include "compiler/quant/Smoothing.h"

#include <functional>

namespace tenon::quant {

/// What tells how large the results of a narrow depthwise convolution are: they themselves, or what
/// activations that alone read them make of them. None of other layers.
std::optional<std::string_view> judgedBy(const Graph &graph, const Layer &layer);

/// The depthwise convolutions that are better wide, with the reason. They compute little, so that
/// this costs little time. `errorOf` is the mean squared error of a group's tensors in 8 bits.
Result<Overrides> findNoisyDepthwise(const Graph &graph, const Plan &plan,
                                     const std::map<std::string_view, Channels> &channels,
                                     const std::function<double(const Group &)> &errorOf,
                                     onnx::ExternalFiles &files);

} // namespace tenon::quant

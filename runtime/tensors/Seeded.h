// Seeded inputs: values that depend on the input's name, the seed and the element's index only, so
// that they are the same on every machine and for every program that follows models/README.md.

#pragma once

#include "engine/Plan.h"
#include "runtime/tensors/ShapeText.h"
#include "runtime/tensors/Tensor.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// Both ends included for integers; [low, high) for floating-point types.
struct ValueRange {
  double low = 0;
  double high = 1;
};

/// Integers are 0 or 1 and floating-point numbers in [-1, 1) where nothing else is known: 0 and 1
/// are valid as ids, masks and segment numbers alike.
ValueRange defaultRange(DType dtype);

/// Whether a type holds every value of a range.
bool holds(DType dtype, ValueRange range);

/// Sets every element of a tensor of numeric type.
void fillSeeded(Tensor &tensor, uint64_t seed, ValueRange range);

/// The symbol that is read from a dim of an input.
std::optional<uint32_t> symbolAt(const engine::Plan &plan, uint32_t input, size_t dim);

/// The dims of every input when the caller does not give tensors: from --shape and --batch, else
/// the likely ones (support/LikelySize.h). `session` are the values of the symbols of the session;
/// by default their presets.
Result<std::vector<std::vector<int64_t>>> chooseDims(const engine::Plan &plan,
                                                     std::span<const ShapeArgument> shapes,
                                                     int64_t batch,
                                                     std::span<const int64_t> session = {});

} // namespace tenon

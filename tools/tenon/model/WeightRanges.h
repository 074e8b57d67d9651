// The least and the largest element of a model's weights, for people who look at a graph.

#pragma once

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <utility>

namespace tenon::tool {

/// Of elements as the weight store holds them; none without elements, for types that this does not
/// read (of less than 8 bits, and bool), and where an element is not a number.
std::optional<std::pair<double, double>> rangeOf(mlir::Type element, llvm::ArrayRef<char> bytes);

} // namespace tenon::tool

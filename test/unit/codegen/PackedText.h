// tn.unpack as the families of CPUs have it in their regions: weights in panels of outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::codegen {

inline std::string joinedBy(const std::vector<int64_t> &values, const std::string &separator) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : separator) + std::to_string(values[i]);
  }
  return text;
}

inline std::string tensorText(const std::vector<int64_t> &dims,
                              const std::string &element = "f32") {
  return "tensor<" + joinedBy(dims, "x") + (dims.empty() ? "" : "x") + element + ">";
}

/// A packed weight, and the line that makes %w, or another value, of it.
struct PackedText {
  std::string type, attributes, weight;

  std::string unpack(const std::string &packed = "%p", const std::string &result = "%w") const {
    return result + " = tn.unpack " + packed + " " + attributes + " : (" + type + ") -> " + weight +
           "\n";
  }
};

/// A matrix in panels of dim `dim`: [panel, other dim, element].
inline PackedText panelsText(const std::vector<int64_t> &matrix, int64_t dim, int64_t panel,
                             const std::string &element = "f32") {
  std::string number = std::to_string(dim), other = std::to_string(1 - dim);
  return {tensorText({(matrix[dim] + panel - 1) / panel, matrix[1 - dim], panel}, element),
          "outer_dims_perm = [" + number + ", " + other + "] inner_dims_pos = [" + number +
              "] inner_tiles = [" + std::to_string(panel) + "]",
          tensorText(matrix, element)};
}

/// A convolution's weight [O, I / groups, taps...]: [group, panel, taps..., input channel, output
/// channel], without the first of one group. The last two dims of taps come first if `squareFirst`.
/// With words of so many `elements` of input channels, which are the last dim then.
inline PackedText outputPanelsText(const std::vector<int64_t> &weight, int64_t panel,
                                   int64_t groups = 1, const std::string &element = "f32",
                                   bool squareFirst = false, int64_t elements = 1) {
  int64_t rank = weight.size(), outputs = weight[0] / groups;
  std::vector<int64_t> order, packed = {(outputs + panel - 1) / panel};
  for (int64_t dim = 2; dim < rank; ++dim) {
    order.push_back(squareFirst && rank == 5 ? (dim == 4 ? 2 : dim + 1) : dim);
  }
  order.push_back(1);
  for (int64_t dim : order) {
    packed.push_back(weight[dim]);
  }
  packed.back() = (packed.back() + elements - 1) / elements;
  packed.push_back(panel);
  std::string first = "0, ", tiled = "0", tiles = std::to_string(panel);
  if (groups > 1) {
    packed.insert(packed.begin(), groups);
    first += std::to_string(rank) + ", ";
    tiled = "0, 0";
    tiles = std::to_string(outputs) + ", " + tiles;
  }
  if (elements > 1) {
    packed.push_back(elements);
    tiled += ", 1";
    tiles += ", " + std::to_string(elements);
  }
  return {tensorText(packed, element),
          "outer_dims_perm = [" + first + joinedBy(order, ", ") + "] inner_dims_pos = [" + tiled +
              "] inner_tiles = [" + tiles + "]",
          tensorText(weight, element)};
}

} // namespace tenon::codegen

// What the rows that a product multiplies have in common: the sum of their outer products, by which
// rounding knows what an error of a weight does to the results.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tenon::quant {

class Gram {
public:
  explicit Gram(size_t depth = 0) : size(depth), sums(depth * depth) {}

  /// Rows of `depth` numbers, one behind the other.
  void add(std::span<const float> rows);

  size_t depth() const { return size; }
  size_t rows() const { return count; }
  /// [depth, depth], symmetric.
  float at(size_t i, size_t j) const { return i < j ? sums[i * size + j] : sums[j * size + i]; }

private:
  size_t size = 0, count = 0;
  std::vector<float> sums; ///< its upper triangle
};

/// By the tensor that products multiply.
using Grams = std::map<std::string, Gram, std::less<>>;

/// The upper triangular U with inverse(G) = transpose(U) * U, of the Gram matrix with a hundredth
/// of its mean diagonal added, so that it has an inverse: [depth, depth], row by row.
std::vector<float> inverseFactor(const Gram &gram);

} // namespace tenon::quant

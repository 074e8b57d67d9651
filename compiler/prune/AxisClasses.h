// What has to be removed together: a union-find over the indices of all axes of a model's values.
// Two indices in one class are removed both or neither; an index that must stay keeps its class.
// Axes that are products of others (reshapes, groups of a convolution, heads) are settled last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tenon::prune {

/// An axis of a value, or a factor of one: indices `first` to `first + size - 1`.
struct Axis {
  uint32_t first = 0;
  uint32_t size = 0;
  /// Its size follows free dims of the model's inputs; `size` is the one that rules look at.
  bool isFree = false;
  /// What `size` would be if it were not 0 for being too large to follow.
  uint64_t extent = 0;
  uint32_t at(uint32_t index) const { return first + index; }
};

class AxisClasses {
public:
  /// A new axis whose indices are free. One of size 1 has to stay: nothing would be left of it.
  Axis add(uint32_t size);
  /// Of two indices, by their numbers.
  void tie(uint32_t one, uint32_t other);
  /// Index i of one with index i of the other; sizes are equal.
  void tie(Axis one, Axis other);
  /// The index stays, and with it its class; the first reason is kept.
  void fix(uint32_t index, const std::string &reason);
  void fix(Axis axis, const std::string &reason);
  /// Row-major: index i of `whole` is (i / rest, i % rest) and so on. To remove an index of a
  /// factor removes all of the whole that have it. Of the factors one can be pruned at most; where
  /// several could, `settle` chooses the one with most indices, the first of equal ones.
  void product(Axis whole, std::vector<Axis> factors, std::string where);
  /// The axis counts heads: code around the model has their number too.
  void markHeads(Axis axis) { heads.push_back(axis); }
  /// Takes products in; after all axisClasses.
  void settle();

  uint32_t classOf(uint32_t index) const;
  bool isFixed(uint32_t index) const { return reasons[classOf(index)] != kFree; }
  bool isFixed(Axis axis) const;
  /// Why the index stays; empty for one that need not.
  const std::string &reasonOf(uint32_t index) const { return texts[reasons[classOf(index)]]; }
  /// The classes of heads; after settle.
  std::set<uint32_t> headClasses() const;
  size_t size() const { return parents.size(); }

private:
  struct Product {
    Axis whole;
    std::vector<Axis> factors;
    std::string where;
  };
  static constexpr uint32_t kFree = 0;

  uint32_t numberOf(const std::string &reason);
  void fixBy(uint32_t index, uint32_t reason);
  bool settleOne(const Product &product);
  void tieFactor(const Product &product, size_t factor);

  mutable std::vector<uint32_t> parents; ///< halved on the way to a root
  std::vector<uint32_t> reasons;         ///< of roots: into texts
  std::vector<std::string> texts = {""};
  std::vector<Product> products;
  std::vector<Axis> heads;
};

} // namespace tenon::prune

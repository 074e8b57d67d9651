// Relies on the smaller root winning, so that classes are numbered alike in every run.
#include "compiler/prune/AxisClasses.h"

#include "support/Check.h"

#include <algorithm>

namespace tenon::prune {

Axis AxisClasses::add(uint32_t size) {
  Axis axis{static_cast<uint32_t>(parents.size()), size, false, size};
  for (uint32_t i = 0; i < size; ++i) {
    parents.push_back(axis.at(i));
    reasons.push_back(kFree);
  }
  if (size == 1) {
    fix(axis, "nothing would be left of one index");
  }
  return axis;
}

uint32_t AxisClasses::classOf(uint32_t index) const {
  while (parents[index] != index) {
    parents[index] = parents[parents[index]];
    index = parents[index];
  }
  return index;
}

void AxisClasses::tie(uint32_t one, uint32_t other) {
  one = classOf(one);
  other = classOf(other);
  if (one == other) {
    return;
  }
  uint32_t root = std::min(one, other), leaf = std::max(one, other);
  parents[leaf] = root;
  if (reasons[root] == kFree) {
    reasons[root] = reasons[leaf];
  }
}

void AxisClasses::tie(Axis one, Axis other) {
  TENON_CHECK(one.size == other.size, "only axes of one size are tied");
  for (uint32_t i = 0; i < one.size; ++i) {
    tie(one.at(i), other.at(i));
  }
}

uint32_t AxisClasses::numberOf(const std::string &reason) {
  if (texts.back() != reason) {
    texts.push_back(reason);
  }
  return static_cast<uint32_t>(texts.size() - 1);
}

void AxisClasses::fixBy(uint32_t index, uint32_t reason) {
  uint32_t root = classOf(index);
  if (reasons[root] == kFree) {
    reasons[root] = reason;
  }
}

void AxisClasses::fix(uint32_t index, const std::string &reason) { fixBy(index, numberOf(reason)); }

void AxisClasses::fix(Axis axis, const std::string &reason) {
  uint32_t number = numberOf(reason);
  for (uint32_t i = 0; i < axis.size; ++i) {
    fixBy(axis.at(i), number);
  }
}

bool AxisClasses::isFixed(Axis axis) const {
  for (uint32_t i = 0; i < axis.size; ++i) {
    if (!isFixed(axis.at(i))) {
      return false;
    }
  }
  return true;
}

std::set<uint32_t> AxisClasses::headClasses() const {
  std::set<uint32_t> classes;
  for (Axis axis : heads) {
    for (uint32_t i = 0; i < axis.size; ++i) {
      classes.insert(classOf(axis.at(i)));
    }
  }
  return classes;
}

void AxisClasses::product(Axis whole, std::vector<Axis> factors, std::string where) {
  products.push_back({whole, std::move(factors), std::move(where)});
}

/// Index i of the whole goes with its index of the factor.
void AxisClasses::tieFactor(const Product &product, size_t factor) {
  uint32_t inner = 1;
  for (size_t i = factor + 1; i < product.factors.size(); ++i) {
    inner *= product.factors[i].size;
  }
  Axis axis = product.factors[factor];
  for (uint32_t i = 0; i < product.whole.size; ++i) {
    tie(product.whole.at(i), axis.at(i / inner % axis.size));
  }
}

/// Whether it is settled: with one factor that may be pruned, or with none.
bool AxisClasses::settleOne(const Product &product) {
  size_t free = product.factors.size(), count = 0;
  for (size_t i = 0; i < product.factors.size(); ++i) {
    if (!isFixed(product.factors[i])) {
      free = i;
      ++count;
    }
  }
  if (isFixed(product.whole)) {
    uint32_t reason = reasons[classOf(product.whole.first)];
    for (Axis factor : product.factors) {
      for (uint32_t i = 0; i < factor.size; ++i) {
        fixBy(factor.at(i), reason);
      }
    }
    return true;
  }
  if (count > 1) {
    return false;
  }
  if (count == 1) {
    tieFactor(product, free);
    return true;
  }
  // Of the factors' reasons the one that is not about an index that stands alone says more.
  uint32_t reason = kFree;
  for (Axis factor : product.factors) {
    uint32_t own = factor.size == 0 ? kFree : reasons[classOf(factor.first)];
    reason = reason == kFree || factor.size > 1 ? own : reason;
  }
  for (uint32_t i = 0; i < product.whole.size; ++i) {
    fixBy(product.whole.at(i), reason);
  }
  return true;
}

void AxisClasses::settle() {
  while (!products.empty()) {
    size_t before = products.size();
    std::erase_if(products, [&](const Product &product) { return settleOne(product); });
    if (products.size() < before || products.empty()) {
      continue;
    }
    // All that are left have a choice: the factor of fewest indices stays, the last of equal ones.
    const Product &first = products.front();
    const Axis *least = nullptr;
    for (const Axis &factor : first.factors) {
      if (!isFixed(factor) && (!least || factor.size <= least->size)) {
        least = &factor;
      }
    }
    fix(*least, first.where);
  }
}

} // namespace tenon::prune

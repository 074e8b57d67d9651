// Seeded choices: the same seed makes the same model on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace tenon {

class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}

  /// splitmix64.
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  /// In [0, count).
  int64_t below(int64_t count) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(count));
  }
  /// In [low, high].
  int64_t within(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double probability) { return unit() < probability; }
  /// In [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  template <typename T> T one(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<int64_t>(list.size()))];
  }
  template <typename List> const typename List::value_type &of(const List &list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }

private:
  uint64_t state;
};

} // namespace tenon

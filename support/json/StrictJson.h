// The reader of JSON that nobody vouches for: bounded, and without equal keys, of which two readers
// may take different ones. Numbers of tensors can be kept flat beside the tree.

#pragma once

#include "support/json/Json.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tenon {

/// Numbers and booleans in the order of the text, whatever their nesting: nine bytes an
/// element.
struct NumberList {
  enum class Kind : uint8_t { Signed, Unsigned, Float, Bool };
  std::vector<Kind> kinds;
  std::vector<uint64_t> values; ///< the bits of int64_t, uint64_t and double

  size_t size() const { return kinds.size(); }
  /// Memory that it takes.
  uint64_t bytes() const {
    return kinds.capacity() * sizeof(Kind) + values.capacity() * sizeof(uint64_t);
  }
};

struct JsonLimits {
  size_t maxDepth; ///< of objects and arrays in each other
  size_t maxValues = SIZE_MAX;
  bool isObject = false;            ///< the text is an object
  bool acceptsByteOrderMark = true; ///< in front of the value
  std::string_view listKey = {};    ///< see parseStrict
  /// Where it is not empty, lists are those of objects in the array that is the root's member of
  /// this name.
  std::string_view listParent = {};
  /// Asked before the lists grow to so many bytes together; null: they may.
  const std::function<bool(uint64_t bytes)> *mayHold = nullptr;
};

/// Why a text is refused.
struct JsonFault {
  enum class Kind : uint8_t { Syntax, Depth, Values, EqualKeys, NoObject, NoNumbers, Memory };
  Kind kind;
  std::string text; ///< what is wrong, with its place where that is a byte
};

/// Reads the value that is the whole of `text`. With `lists`, an array under the key `listKey`
/// becomes the index of its list there, and holds nothing but numbers, booleans and arrays of them:
/// they do not count as values. Numbers there are also NaN, Infinity and Inf, with a sign before
/// the latter two.
std::optional<JsonFault> parseStrict(std::string_view text, const JsonLimits &limits, Json &value,
                                     std::vector<NumberList> *lists = nullptr);

} // namespace tenon

// JSON of clients, which is hostile: a tree of bounded depth without duplicate keys, and the
// elements of tensors kept flat beside it. It relies on nlohmann-json for the grammar, UTF-8 and
// numbers.

#pragma once

#include "support/DType.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::server {

/// Numbers and booleans in the order of the text, whatever their nesting: nine bytes an
/// element.
class NumberList {
public:
  enum class Kind : uint8_t { Signed, Unsigned, Float, Bool };
  void push(Kind kind, uint64_t bits) {
    kinds.push_back(kind);
    values.push_back(bits);
  }
  size_t size() const { return kinds.size(); }
  /// Memory that it takes.
  uint64_t bytes() const {
    return kinds.capacity() * sizeof(Kind) + values.capacity() * sizeof(uint64_t);
  }
  /// Writes the elements as `dtype` to `out`, which holds size() of them. BadRequestTensor for a
  /// value that the type does not have, and for types that JSON has no numbers for; `name` is the
  /// tensor's.
  Status store(DType dtype, MutableBytes out, std::string_view name) const;

private:
  std::vector<Kind> kinds;
  std::vector<uint64_t> values;
};

/// Parses one value that is the whole of `text`. With `lists`, an array under a key "data" becomes
/// the number of its list there, and holds nothing but numbers, booleans and arrays of them.
/// TN0806 with the place otherwise.
Status parseJson(std::string_view text, nlohmann::json &value,
                 std::vector<NumberList> *lists = nullptr);

} // namespace tenon::server

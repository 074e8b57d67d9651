// Regions with one attention as text, for the tests of every target. Relies on the parser for what
// is not a valid region.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::codegen {

/// Types of the operands and the result, and the attributes.
struct AttentionCase {
  std::string q, k, v, y, mask = "";
  std::string headsInner = "false, false, false, false";
  bool causal = false;
  std::string symbols = "";
  double scale = 0.3;
  bool maskedRowsAreNan = false;
  std::string start = "";
  int64_t window = 0;
};

inline std::string attentionText(const AttentionCase &c) {
  std::string signature = "(%q: " + c.q + ", %k: " + c.k + ", %v: " + c.v;
  std::string types = c.q + ", " + c.k + ", " + c.v, mask;
  if (!c.mask.empty()) {
    signature += ", %m: " + c.mask;
    types += ", " + c.mask;
    mask = " mask %m";
  }
  if (!c.start.empty()) {
    signature += ", %s: " + c.start;
    types += ", " + c.start;
    mask += " start %s";
  }
  std::string attributes =
      c.symbols.empty() ? "" : " attributes {tn.symbols = [" + c.symbols + "]}";
  return "module" + attributes + " {\n  func.func @kernel" + signature + ") -> " + c.y +
         " attributes {tn.strategy = \"attention\"} {\n%0 = tn.attention %q, %k, %v" + mask +
         " {scale = " + std::to_string(c.scale) +
         " : f64, causal = " + (c.causal ? "true" : "false") +
         ", headsInner = array<i1: " + c.headsInner + ">" +
         (c.maskedRowsAreNan ? ", maskedRowsAreNan" : "") +
         (c.window > 0 ? ", window = " + std::to_string(c.window) + " : i64" : "") + "} : (" +
         types + ") -> " + c.y + "\nreturn %0 : " + c.y + "\n  }\n}\n";
}

/// Without a mask; as many key heads as heads if `keyHeads` is 0.
inline AttentionCase plainAttention(const std::string &type, int64_t batch, int64_t heads,
                                    int64_t queries, int64_t keys, int64_t width,
                                    int64_t valueWidth, int64_t keyHeads = 0) {
  auto tensor = [&](int64_t h, int64_t s, int64_t w) {
    return "tensor<" + std::to_string(batch) + "x" + std::to_string(h) + "x" + std::to_string(s) +
           "x" + std::to_string(w) + "x" + type + ">";
  };
  keyHeads = keyHeads ? keyHeads : heads;
  return {tensor(heads, queries, width), tensor(keyHeads, keys, width),
          tensor(keyHeads, keys, valueWidth), tensor(heads, queries, valueWidth)};
}

} // namespace tenon::codegen

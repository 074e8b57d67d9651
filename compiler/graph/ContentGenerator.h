// A generator of weights that says what it makes, so that an engine holds equal ones once although
// their bytes are never there to be compared.
#pragma once

#include "compiler/graph/WeightStore.h"

namespace tenon::tn {

struct ContentGenerator {
  std::string content; ///< generators with equal texts make equal bytes
  WeightGenerator make;

  void operator()(uint64_t begin, uint64_t size, char *out) const { make(begin, size, out); }
};

} // namespace tenon::tn

// Placeholder until the search lands in the next commit.

#include "support/OffsetSearch.h"

namespace tenon {

struct OffsetSearch::Impl {};

OffsetSearch::OffsetSearch() = default;
OffsetSearch::~OffsetSearch() = default;

bool OffsetSearch::fit(std::span<PlannedBuffer> buffers, int64_t capacity, uint64_t &nodes) {
  return false;
}

} // namespace tenon

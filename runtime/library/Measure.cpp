// Lays as many sets of buffers as fill a cache twice, at least one. Relies on the least of a few
// rounds being what a candidate costs.

#include "runtime/library/Measure.h"

#include <algorithm>

namespace tenon::library {
namespace {

/// More than twice the second-level cache of the largest part.
constexpr size_t kColdBytes = 160ull << 20;
constexpr unsigned kMaxSets = 64;

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

} // namespace

Status MeasureMemory::lay(std::span<const size_t> bytes) {
  offsets.clear();
  setBytes = 0;
  for (size_t size : bytes) {
    offsets.push_back(setBytes);
    setBytes += aligned(size);
  }
  size_t filling = kColdBytes / std::max<size_t>(setBytes, 1) + 1;
  sets = static_cast<unsigned>(std::min<size_t>(filling, kMaxSets));
  if (setBytes * sets > blockBytes) {
    TENON_ASSIGN(block, meter->allocate(setBytes * sets));
    blockBytes = setBytes * sets;
  }
  return Status::ok();
}

void *MeasureMemory::buffer(size_t index, unsigned round) const {
  return static_cast<char *>(block) + (round % sets) * setBytes + offsets[index];
}

Result<size_t>
fastestOf(Meter &meter, size_t count,
          const std::function<Status(size_t candidate, void *stream, unsigned round)> &run) {
  size_t best = count;
  double bestSeconds = 0;
  Status problem = Status::error(ErrorId::LibraryUnsupported, "there is no algorithm to measure");
  for (size_t candidate = 0; candidate < count; ++candidate) {
    Result<double> seconds =
        meter.seconds([&](void *stream, unsigned round) { return run(candidate, stream, round); });
    if (!seconds) {
      problem = seconds.takeStatus();
    } else if (best == count || *seconds < bestSeconds) {
      best = candidate;
      bestSeconds = *seconds;
    }
  }
  if (best == count) {
    return problem;
  }
  return best;
}

} // namespace tenon::library

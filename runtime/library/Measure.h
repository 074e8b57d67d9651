// Choice among algorithms by time: each runs on buffers that rotate through more memory than the
// caches hold, as weights do in a model. Relies on a Meter for device memory and clocks.

#pragma once

#include "runtime/library/Library.h"

namespace tenon::library {

/// Buffers for one call, taken from one block of device memory that is kept from call to call.
class MeasureMemory {
public:
  explicit MeasureMemory(Meter *device) : meter(device) {}

  /// `bytes` of each buffer, the workspace last.
  Status lay(std::span<const size_t> bytes);
  /// The buffers of a round.
  void *buffer(size_t index, unsigned round) const;

private:
  Meter *meter;
  void *block = nullptr;
  size_t blockBytes = 0;
  std::vector<size_t> offsets;
  size_t setBytes = 0;
  unsigned sets = 1;
};

/// Index of the fastest of `count` candidates; those that fail are passed over. An error if all do.
Result<size_t>
fastestOf(Meter &meter, size_t count,
          const std::function<Status(size_t candidate, void *stream, unsigned round)> &run);

} // namespace tenon::library

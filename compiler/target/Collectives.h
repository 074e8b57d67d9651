// What the GPUs of one host take to add or to gather what each has: a table for each part. Relies
// on links of one kind between all of them, without multicast.
#pragma once

#include "compiler/target/Target.h"

#include <cstdint>

namespace tenon::target {

enum class Collective : uint8_t { AllReduce, AllGather };

/// Seconds of collectives among the ranks of a group.
class Collectives {
public:
  explicit Collectives(const Target &target);

  /// An all-reduce of at most 16 KiB takes `seconds`, whatever the table says; a longer one by as
  /// much more as in the table.
  void setShortest(double seconds) { shortest = seconds; }
  /// Of `bytes` on each rank before an all-reduce, and of the whole of an all-gather.
  double seconds(Collective kind, int64_t bytes, int64_t ranks) const;
  /// Of an all-reduce with a residual and an RMSNorm behind it in one kernel.
  double normedSeconds(int64_t bytes, int64_t ranks) const;
  /// Whether the table was measured on this part; otherwise it is an estimate by its links.
  bool isMeasured() const { return measured; }

private:
  double ofTwo(double bytes) const;

  double link = 1; ///< of the measured part, by this one's
  double first = 0, shortest = 0;
  bool measured = false;
};

/// Bytes of memory of a GPU, as its vendor prints them; 0 of a part that the table lacks.
double memoryBytesOf(const Target &target);

} // namespace tenon::target

// Barriers in the shared memory of a cluster that count arrivals and bytes, and copies of boxes of
// a matrix and stores that complete on them. Relies on shared memory that was not written being
// told apart by its user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace tenon::codegen::cuda {

/// What a kernel gets in place of the 128 bytes that the driver encodes (engine::TensorMap).
struct EmulatedTensorMap {
  const char *address = nullptr;
  int64_t rows = 0, columns = 0, rowBytes = 0;
  uint32_t boxRows = 0, boxColumns = 0;
  uint64_t mark = kMark;

  static constexpr uint64_t kMark = 0x7465736e65746d70;
};

class BarrierModel {
public:
  /// Copies land at once, so that they destroy what is still needed; or as late as can be, when
  /// their barrier is waited for, so that what is used before is not there.
  explicit BarrierModel(bool isLate) : isLate(isLate) {}

  void init(const char *barrier, uint32_t arrivals, unsigned thread);
  /// Makes the barriers that this thread made known to copies and to other blocks.
  void publish(unsigned thread);
  void arrive(const char *barrier, int64_t expectedBytes);
  /// Whether the phase of this parity has ended.
  bool hasEnded(const char *barrier, uint32_t parity);
  void copyBox(const EmulatedTensorMap &map, int32_t column, int32_t row, char *to,
               const char *barrier);
  /// Of a word of 4 or 8 bytes.
  void store(const void *word, size_t bytes, char *to, const char *barrier);

  /// "phase 3 of a barrier lacks 1 arrivals and 128 bytes".
  std::string describe(const char *barrier) const;
  std::string endFault() const;

  std::string fault;
  uint64_t events = 0; ///< that may let waiting threads go on

private:
  struct Barrier {
    uint32_t arrivals = 0, missing = 0;
    int64_t bytes = 0;
    uint64_t phase = 0;
    unsigned maker = 0;
    bool isPublished = false;
  };
  struct Copy {
    EmulatedTensorMap map;
    int32_t column, row;
    char *to;
    std::string word = {}; ///< of a store
  };

  Barrier *find(const char *barrier);
  void endPhase(Barrier &barrier);
  void begin(const Copy &copy, const char *place, Barrier &barrier);
  void land(const Copy &copy, Barrier &barrier);

  bool isLate;
  std::map<const char *, Barrier> barriers;
  std::map<const char *, std::deque<Copy>> underWay; ///< by barrier
};

} // namespace tenon::codegen::cuda

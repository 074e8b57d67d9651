// How a run is handed from the front to an instance of a model in a worker and back: one page of
// shared memory for each instance, and an eventfd either way. Tensors lie in shared buffers
// (SharedMemory), which the page names by number.
//
// A table of tensors is a sequence of 64-bit words: for each tensor its offset in the shared
// buffer, its bytes, its rank and its dims.

#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace tenon::server {

/// Where tensors begin; what any kernel asks of its operands, and a cache line.
inline constexpr uint64_t kTensorAlignment = 64;

constexpr uint64_t alignTensor(uint64_t offset) {
  return (offset + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

struct RequestSlot {
  static constexpr size_t kTextBytes = 2048;
  enum class Outcome : uint32_t { Done, NeedsRoom, Failed };

  // Written by the front before it signals; it is the worker's turn then until `answers` grows.
  uint32_t inputBuffer;
  uint32_t outputBuffer;
  uint64_t outputOffset; ///< of the outputs' table; the tensors follow it
  uint64_t outputEnd;
  uint32_t inputCount; ///< their table is at the start of the shared input buffer

  // Written by the worker before it signals.
  Outcome outcome;
  uint64_t roomNeeded; ///< from outputOffset; NeedsRoom
  uint64_t computeNanoseconds;
  uint64_t heldBytes; ///< of memory that the instance's session holds
  uint32_t errorId;   ///< Failed
  uint32_t messageBytes;
  uint32_t hintBytes;
  char text[kTextBytes]; ///< message, then hint

  /// How many runs have been handed over and answered.
  std::atomic<uint32_t> requests;
  std::atomic<uint32_t> answers;
};

inline constexpr uint64_t kRequestSlotBytes = 4096;
static_assert(sizeof(RequestSlot) <= kRequestSlotBytes);

/// What the worker wrote into a request slot.
struct RunAnswer {
  RequestSlot::Outcome outcome = RequestSlot::Outcome::Failed;
  uint64_t roomNeeded = 0;
  uint64_t computeNanoseconds = 0;
  uint64_t heldBytes = 0;
  Status failure; ///< Failed
};

/// Reads each word of the answer once: the worker may write on. An outcome that there is not is
/// Failed with TN0902.
RunAnswer readAnswer(const RequestSlot &slot);

struct TensorPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::vector<int64_t> dims;
};

/// Bytes of the table of such tensors.
uint64_t tableBytes(const std::vector<TensorPlace> &tensors);
/// Writes the table at `offset` of `buffer`, where it has room.
void writeTable(MutableBytes buffer, uint64_t offset, const std::vector<TensorPlace> &tensors);
/// Reads one of `count` tensors at `offset`. TN0902 unless table and tensors lie within `buffer`
/// and ranks are at most 32.
Result<std::vector<TensorPlace>> readTable(Bytes buffer, uint64_t offset, size_t count);

} // namespace tenon::server

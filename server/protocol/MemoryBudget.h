// The accountant of what requests hold: bodies, messages, numbers, tensors and replies are charged
// to one budget for as long as they are there. A buffer has its charge beside it, so that none is
// given up without the other. Any thread.

#pragma once

#include "support/Result.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::server {

class MemoryBudget {
public:
  explicit MemoryBudget(uint64_t most) : most(most) {}
  MemoryBudget(const MemoryBudget &) = delete;
  MemoryBudget &operator=(const MemoryBudget &) = delete;

  uint64_t limit() const { return most; }
  uint64_t held() const { return bytes.load(std::memory_order_relaxed); }

private:
  friend class MemoryCharge;
  uint64_t roomFor(uint64_t bytes) const; ///< of an empty budget
  bool change(uint64_t from, uint64_t to);
  void add(uint64_t more) { bytes.fetch_add(more, std::memory_order_relaxed); }

  const uint64_t most;
  std::atomic<uint64_t> bytes{0};
};

/// What one buffer takes of a budget; without a budget, nothing.
class MemoryCharge {
public:
  explicit MemoryCharge(MemoryBudget *budget = nullptr) : budget(budget) {}
  ~MemoryCharge() { release(); }
  MemoryCharge(MemoryCharge &&from) noexcept
      : budget(from.budget), bytes(std::exchange(from.bytes, 0)) {}
  MemoryCharge &operator=(MemoryCharge &&from) noexcept;
  /// What is copied is there already, so it is charged beyond the bound too.
  MemoryCharge(const MemoryCharge &from);
  MemoryCharge &operator=(const MemoryCharge &from) { return *this = MemoryCharge(from); }

  /// TN0812 where the budget has no room now, TN0808 where it never has, and nothing changes. The
  /// last eighth of a budget is for
  /// buffers of at most 1 MiB, and 1 KiB of each costs nothing: large requests neither keep small
  /// ones out nor the questions of probes.
  Status resize(uint64_t to);
  /// Why the budget had no room for so much.
  Status explain(uint64_t wanted) const;
  void release();
  uint64_t size() const { return bytes; }
  MemoryBudget *owner() const { return budget; }

private:
  MemoryBudget *budget;
  uint64_t bytes = 0;
};

/// Text with its charge.
struct ChargedString {
  explicit ChargedString(MemoryBudget *budget = nullptr) : charge(budget) {}

  /// TN0812, and the text is what it was.
  Status append(std::string_view piece);
  /// Charges what `text` has become. TN0812.
  Status settle() { return charge.resize(text.size()); }

  std::string text;
  MemoryCharge charge;
};

/// Text that is written once, in blocks: it is not copied as it grows, and a block goes as soon as
/// its last owner does.
class ChargedText {
public:
  explicit ChargedText(MemoryBudget *budget) : budget(budget) {}

  /// Where up to some hundred KiB more are appended before the next settle().
  std::string &tail();
  /// Charges what was appended. TN0812.
  Status settle();
  uint64_t size() const;
  const std::vector<std::shared_ptr<ChargedString>> &blocks() const { return all; }

private:
  MemoryBudget *budget;
  std::vector<std::shared_ptr<ChargedString>> all;
};

} // namespace tenon::server

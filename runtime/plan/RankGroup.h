// Where the ranks of a session meet: those of a stage run the same instructions on a thread each,
// and at a collective none goes on before all have come. What is done there is the device's; what
// it shares between ranks it hands over by pointers. Between stages a link leads from rank to rank.

#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tenon::runtime {

class RankGroup {
public:
  explicit RankGroup(uint32_t ranks);

  uint32_t ranks() const { return static_cast<uint32_t>(meetings.size()); }

  /// Waits until every rank has called this as often as this one, and gives what each handed over,
  /// in the order of ranks. That stays valid until this rank meets the others once more; what ranks
  /// wrote before they came is then visible to all. By the thread of a rank. Nothing, and without
  /// waiting on, where one has failed before it came.
  std::optional<std::span<const void *const>> meet(uint32_t rank, const void *handedOver = nullptr);

  /// Ends the wait of the others: this rank does not come any more.
  void fail(uint32_t rank);
  /// The same, for what failed in another group.
  void end();
  /// This rank waited for one of another group in vain: it does not count as the one that failed.
  void giveUp(uint32_t rank) { isLeft[rank] = 1; }
  /// The lowest of those that failed by themselves.
  std::optional<uint32_t> failed() const;
  /// Before ranks do something together, while none does. `isRun`: what they do is looked at by
  /// awaited.
  void begin(bool isRun);
  /// This rank is through with it.
  void leave(uint32_t rank) { meetings[rank].store(kThrough, std::memory_order_relaxed); }
  /// All are through.
  void endRun() { isRunning.store(false, std::memory_order_relaxed); }

  /// A rank that others wait for, and where it is: another number once it has gone on.
  struct Awaited {
    uint32_t rank = 0;
    uint64_t step = 0;
    bool operator==(const Awaited &) const = default;
  };
  /// By any thread. Of a run; nothing while all ranks compute.
  std::optional<Awaited> awaited() const;

private:
  static constexpr uint32_t kThrough = UINT32_MAX;

  /// By parity of the meeting: no rank is more than one meeting ahead of another.
  std::vector<const void *> given[2];
  std::vector<std::atomic<uint32_t>> meetings; ///< of each rank
  std::atomic<uint32_t> runs = 0;              ///< that were begun
  std::atomic<bool> isRunning = false;
  std::vector<char> isLeft; ///< by rank: others did not come to where it waited
  std::atomic<uint32_t> missing;
  /// Meetings that are over, and whether a rank has failed.
  std::atomic<uint32_t> over = 0;
  std::atomic<uint32_t> firstFailed;
};

/// From a rank to the one in the same position of the next stage: one value at a time. Each side by
/// the thread of its rank.
class RankLink {
public:
  /// Waits until the other side has taken what is given. False where a rank has failed.
  bool give(const void *value);
  /// Waits for what is given, which stays valid until `taken`. Null where a rank has failed.
  const void *take();
  void taken();

  /// Ends the waits of both sides.
  void fail();
  /// Before a run, while no rank is in one.
  void reset();

private:
  bool waitWhile(uint32_t parity);

  const void *given = nullptr;
  std::atomic<uint32_t> turns = 0; ///< odd: a value is given; and whether a rank has failed
};

/// Which rank of which group an executor works for; alone without a group.
struct RankPlace {
  uint32_t rank = 0;     ///< of the session
  uint32_t position = 0; ///< in its group
  uint32_t stage = 0;
  uint32_t ofSession = 1;     ///< ranks
  RankGroup *group = nullptr; ///< of the stage; outlives the executor, as links do
  RankLink *before = nullptr; ///< from the stage before; null for the first
  RankLink *after = nullptr;  ///< to the stage behind; null for the last
};

} // namespace tenon::runtime

// One atomic counter.

#include "server/protocol/MemoryBudget.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {
namespace {

/// Of each buffer, what costs nothing.
constexpr uint64_t kFree = 1 << 10;
/// Larger buffers leave the last part of the budget to others.
constexpr uint64_t kLarge = 1 << 20;
constexpr uint64_t kReservedPart = 8;
constexpr size_t kBlock = 1 << 20;

uint64_t costOf(uint64_t bytes) { return bytes > kFree ? bytes - kFree : 0; }

} // namespace

uint64_t MemoryBudget::roomFor(uint64_t wanted) const {
  return wanted > kLarge ? most - most / kReservedPart : most;
}

bool MemoryBudget::change(uint64_t from, uint64_t to) {
  uint64_t before = costOf(from), after = costOf(to);
  if (after <= before) {
    bytes.fetch_sub(before - after, std::memory_order_relaxed);
    return true;
  }
  uint64_t room = roomFor(to), now = held();
  do {
    if (now > room || after - before > room - now) {
      return false;
    }
  } while (!bytes.compare_exchange_weak(now, now + (after - before), std::memory_order_relaxed));
  return true;
}

MemoryCharge &MemoryCharge::operator=(MemoryCharge &&from) noexcept {
  if (this != &from) {
    release();
    budget = from.budget;
    bytes = std::exchange(from.bytes, 0);
  }
  return *this;
}

MemoryCharge::MemoryCharge(const MemoryCharge &from) : budget(from.budget), bytes(from.bytes) {
  if (budget) {
    budget->add(costOf(bytes));
  }
}

Status MemoryCharge::resize(uint64_t to) {
  if (budget && !budget->change(bytes, to)) {
    return explain(to);
  }
  bytes = to;
  return Status::ok();
}

Status MemoryCharge::explain(uint64_t wanted) const {
  if (uint64_t room = budget->roomFor(wanted); costOf(wanted) > room) {
    return Status::error(
        ErrorId::RequestTooLarge,
        fmt::format("the request or its reply needs more than the limit of {} bytes", room),
        "the server's --max-memory sets this limit");
  }
  return Status::error(ErrorId::QueueFull,
                       "waiting and running requests use all memory that requests may use",
                       "try again later; the server's --max-memory sets this limit");
}

void MemoryCharge::release() {
  if (budget) {
    budget->change(bytes, 0);
  }
  bytes = 0;
}

Status ChargedString::append(std::string_view piece) {
  TENON_TRY(charge.resize(text.size() + piece.size()));
  text += piece;
  return Status::ok();
}

std::string &ChargedText::tail() {
  if (all.empty() || all.back()->text.size() >= kBlock) {
    bool isLong = !all.empty();
    all.push_back(std::make_shared<ChargedString>(budget));
    all.back()->text.reserve(isLong ? kBlock + kBlock / 2 : 0);
  }
  return all.back()->text;
}

Status ChargedText::settle() {
  Status settled = all.empty() ? Status::ok() : all.back()->settle();
  // Each block would fit; the whole never will.
  return settled.isOk() ? settled : MemoryCharge(budget).explain(size());
}

uint64_t ChargedText::size() const {
  uint64_t sum = 0;
  for (const std::shared_ptr<ChargedString> &block : all) {
    sum += block->text.size();
  }
  return sum;
}

} // namespace tenon::server

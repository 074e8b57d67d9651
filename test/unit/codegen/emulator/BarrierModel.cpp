// Barriers lie beside the memory that names them: what is stored over one is not seen.
#include "test/unit/codegen/emulator/BarrierModel.h"

#include <cstring>

namespace tenon::codegen::cuda {

void BarrierModel::init(const char *place, uint32_t arrivals, unsigned thread) {
  if (barriers.contains(place) || arrivals == 0 || reinterpret_cast<uintptr_t>(place) % 8 != 0) {
    fault = "a barrier that is made twice, for no arrivals or not on a border of 8 bytes";
  }
  Barrier barrier;
  barrier.arrivals = barrier.missing = arrivals;
  barrier.maker = thread;
  barriers[place] = barrier;
  ++events;
}

void BarrierModel::publish(unsigned thread) {
  for (auto &[place, barrier] : barriers) {
    barrier.isPublished |= barrier.maker == thread;
  }
}

BarrierModel::Barrier *BarrierModel::find(const char *place) {
  auto found = barriers.find(place);
  if (found == barriers.end()) {
    fault = "a barrier that was not made";
    return nullptr;
  }
  return &found->second;
}

void BarrierModel::endPhase(Barrier &barrier) {
  ++events;
  if (barrier.missing == 0 && barrier.bytes == 0) {
    ++barrier.phase;
    barrier.missing = barrier.arrivals;
  }
}

void BarrierModel::arrive(const char *place, int64_t expectedBytes) {
  Barrier *barrier = find(place);
  if (!barrier) {
    return;
  }
  if (barrier->missing == 0) {
    fault = "more arrivals than a barrier was made for";
    return;
  }
  --barrier->missing;
  barrier->bytes += expectedBytes;
  endPhase(*barrier);
}

bool BarrierModel::hasEnded(const char *place, uint32_t parity) {
  Barrier *barrier = find(place);
  if (!barrier || parity > 1) {
    fault = barrier ? "a parity that is neither 0 nor 1" : fault;
    return true;
  }
  std::deque<Copy> &copies = underWay[place];
  while (barrier->phase % 2 == parity && !copies.empty()) {
    Copy copy = copies.front();
    copies.pop_front();
    land(copy, *barrier);
  }
  return barrier->phase % 2 != parity;
}

void BarrierModel::copyBox(const EmulatedTensorMap &map, int32_t column, int32_t row, char *to,
                           const char *place) {
  Barrier *barrier = find(place);
  if (!barrier) {
    return;
  }
  if (map.mark != EmulatedTensorMap::kMark || !barrier->isPublished ||
      reinterpret_cast<uintptr_t>(to) % 1024 != 0) {
    fault = "a copy by what is no tensor map, at a barrier not published, or to an address that is "
            "not a multiple of 1024";
    return;
  }
  begin({map, column, row, to}, place, *barrier);
}

void BarrierModel::store(const void *word, size_t bytes, char *to, const char *place) {
  Barrier *barrier = find(place);
  if (!barrier) {
    return;
  }
  if (!barrier->isPublished || reinterpret_cast<uintptr_t>(to) % bytes != 0) {
    fault = "a store at a barrier not published, or not on a border of its size";
    return;
  }
  begin({{}, 0, 0, to, std::string(static_cast<const char *>(word), bytes)}, place, *barrier);
}

void BarrierModel::begin(const Copy &copy, const char *place, Barrier &barrier) {
  ++events;
  if (isLate) {
    underWay[place].push_back(copy);
  } else {
    land(copy, barrier);
  }
}

void BarrierModel::land(const Copy &copy, Barrier &barrier) {
  if (!copy.word.empty()) {
    memcpy(copy.to, copy.word.data(), copy.word.size());
    barrier.bytes -= static_cast<int64_t>(copy.word.size());
    return endPhase(barrier);
  }
  const EmulatedTensorMap &map = copy.map;
  constexpr int64_t chunkBytes = 16, rowBytes = 128, elementBytes = 2;
  for (int64_t r = 0; r < map.boxRows; ++r) {
    for (int64_t c = 0; c < map.boxColumns; ++c) {
      int64_t row = copy.row + r, column = copy.column + c;
      bool isInside = row >= 0 && row < map.rows && column >= 0 && column < map.columns;
      int64_t chunk = c * elementBytes / chunkBytes;
      char *to =
          copy.to + r * rowBytes + (chunk ^ r % 8) * chunkBytes + c * elementBytes % chunkBytes;
      if (isInside) {
        memcpy(to, map.address + row * map.rowBytes + column * elementBytes, elementBytes);
      } else {
        memset(to, 0, elementBytes);
      }
    }
  }
  barrier.bytes -= int64_t(map.boxRows) * map.boxColumns * elementBytes;
  endPhase(barrier);
}

std::string BarrierModel::describe(const char *place) const {
  const Barrier &barrier = barriers.at(place);
  return "phase " + std::to_string(barrier.phase) + " of a barrier lacks " +
         std::to_string(barrier.missing) + " arrivals and " + std::to_string(barrier.bytes) +
         " bytes";
}

std::string BarrierModel::endFault() const {
  for (const auto &[place, copies] : underWay) {
    if (!copies.empty()) {
      return "a copy is still under way when its block ends";
    }
  }
  return "";
}

} // namespace tenon::codegen::cuda

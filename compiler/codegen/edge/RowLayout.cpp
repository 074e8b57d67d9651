// Where rows lie, by the offset planner; inputs that are there from the beginning lie first, and
// everything else around what is left of them.
#include "compiler/codegen/edge/Rows.h"
#include "support/memory/OffsetPlanner.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tenon::codegen::edge {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kPlaceUnit - 1) / kPlaceUnit * kPlaceUnit; }

/// Places all buffers but the first `pinned`, largest keys first, each as low as it fits; bytes of
/// all.
template <typename Key>
int64_t placeAround(std::vector<PlannedBuffer> &buffers, size_t pinned, Key key) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(pinned), order.end(),
                   [&](size_t a, size_t b) { return key(buffers[a]) > key(buffers[b]); });
  std::vector<size_t> placed; // by offset
  int64_t bytes = 0;
  for (size_t index : order) {
    PlannedBuffer &buffer = buffers[index];
    if (index >= pinned) {
      buffer.offset = 0;
      for (size_t other : placed) {
        const PlannedBuffer &there = buffers[other];
        bool isTogether = there.lower < buffer.upper && buffer.lower < there.upper;
        if (isTogether && buffer.offset + aligned(buffer.size) <= there.offset) {
          break;
        }
        if (isTogether) {
          buffer.offset = std::max(buffer.offset, aligned(there.offset + there.size));
        }
      }
    }
    bytes = std::max(bytes, buffer.offset + aligned(buffer.size));
    placed.insert(std::ranges::upper_bound(placed, buffer.offset, {},
                                           [&](size_t i) { return buffers[i].offset; }),
                  index);
  }
  return bytes;
}

int64_t planBuffers(std::vector<PlannedBuffer> &buffers, size_t pinned) {
  if (pinned == 0) {
    constexpr uint64_t kSearch = 20000; // steps; rows are many, and greedy comes close
    return OffsetPlanner().plan(buffers, {.alignment = kPlaceUnit, .nodeLimit = kSearch}).bytes;
  }
  auto length = [](const PlannedBuffer &buffer) { return buffer.upper - buffer.lower; };
  std::vector<PlannedBuffer> best;
  int64_t least = std::numeric_limits<int64_t>::max();
  auto attempt = [&](auto key) {
    std::vector<PlannedBuffer> tried = buffers;
    int64_t bytes = placeAround(tried, pinned, key);
    if (bytes < least) {
      least = bytes;
      best = std::move(tried);
    }
  };
  attempt([](const PlannedBuffer &buffer) { return buffer.size; });
  attempt([&](const PlannedBuffer &buffer) { return length(buffer); });
  attempt([&](const PlannedBuffer &buffer) { return buffer.size * length(buffer); });
  attempt([](const PlannedBuffer &buffer) { return -buffer.lower; });
  buffers = std::move(best);
  return least;
}

class Layout {
public:
  Layout(Program &laidOut, const std::vector<Storage> &howStored, const RowOrder &rowOrder)
      : program(laidOut), storages(howStored), order(rowOrder), bufferOf(laidOut.tensors.size()) {}

  bool run() {
    addInputs();
    addRows();
    overwrite();
    dropEmpty();
    program.arenaBytes = planBuffers(buffers, pinned);
    bool isReached =
        program.arenaBytes <= kPlaceUnit * int64_t{std::numeric_limits<uint16_t>::max()};
    if (isReached) {
      assign();
      findPeak();
    }
    return isReached;
  }

private:
  void addInputs() {
    int64_t offset = 0;
    for (size_t i = 0; i < storages.size(); ++i) {
      if (storages[i] != Storage::Pinned) {
        continue;
      }
      int64_t bytes = rowBytes(program.tensors[i]);
      for (const RowLife &life : order.lives[i]) {
        bufferOf[i].push_back(buffers.size());
        buffers.push_back({life.begin, life.end, bytes, offset});
        offset += bytes;
      }
      offset = aligned(offset);
    }
    pinned = buffers.size();
  }

  void addRows() {
    for (size_t i = 0; i < storages.size(); ++i) {
      if (storages[i] == Storage::Pinned) {
        continue;
      }
      const Tensor &tensor = program.tensors[i];
      int64_t bytes = storages[i] == Storage::Block ? tensor.bytes : rowBytes(tensor);
      for (const RowLife &life : order.lives[i]) {
        bufferOf[i].push_back(buffers.size());
        buffers.push_back({life.begin, life.end, bytes});
      }
    }
    owners.resize(buffers.size());
    std::iota(owners.begin(), owners.end(), size_t{0});
  }

  /// A row that is made element by element lies where the one that it is made from ends.
  void overwrite() {
    for (size_t time = 0; time < order.steps.size(); ++time) {
      const Step &step = order.steps[time];
      if (step.call == static_cast<int>(program.calls.size())) {
        continue;
      }
      const Call &call = program.calls[step.call];
      if (!call.mayOverwrite || call.form != RowForm::Each) {
        continue;
      }
      int from = call.reads.front(), to = call.writes;
      bool areRows = storages[from] != Storage::Block && storages[to] == Storage::Rows;
      bool areBlocks = program.tensors[from].rows == 1 && program.tensors[to].rows == 1;
      if ((!areRows && !areBlocks) || storages[from] == Storage::Pinned ||
          rowBytes(program.tensors[from]) != rowBytes(program.tensors[to])) {
        continue;
      }
      size_t row = areRows ? static_cast<size_t>(step.row) : 0;
      size_t taken = owners[bufferOf[from][row]], given = bufferOf[to][row];
      int64_t behind = static_cast<int64_t>(time) + 1;
      if (buffers[taken].upper == behind && buffers[given].lower + 1 == behind) {
        owners[given] = taken;
        buffers[taken].upper = buffers[given].upper;
      }
    }
  }

  /// Keeps the buffers that are there at some time and have no other's place.
  void dropEmpty() {
    std::vector<size_t> kept(buffers.size(), 0);
    std::vector<PlannedBuffer> rest;
    for (size_t i = 0; i < buffers.size(); ++i) {
      bool isKept = i < pinned || (owners[i] == i && buffers[i].lower >= 0);
      kept[i] = rest.size();
      if (isKept) {
        rest.push_back(buffers[i]);
      }
    }
    for (size_t &owner : owners) {
      owner = buffers[owner].lower >= 0 || owner < pinned ? kept[owner] : kNowhere;
    }
    buffers = std::move(rest);
  }

  void assign() {
    for (size_t i = 0; i < storages.size(); ++i) {
      Tensor &tensor = program.tensors[i];
      auto offset = [&](size_t row) {
        size_t buffer = owners[bufferOf[i][row]];
        return buffer == kNowhere ? 0 : buffers[buffer].offset;
      };
      tensor.offset = offset(0);
      tensor.places.clear();
      for (size_t row = 0; storages[i] == Storage::Rows && row < bufferOf[i].size(); ++row) {
        tensor.places.push_back(static_cast<uint16_t>(offset(row) / kPlaceUnit));
      }
    }
  }

  void findPeak() {
    std::vector<int64_t> live(order.steps.size() + 1);
    for (const PlannedBuffer &buffer : buffers) {
      for (int64_t time = buffer.lower; time < buffer.upper; ++time) {
        live[static_cast<size_t>(time)] += buffer.size;
      }
    }
    live.pop_back();
    program.live = live;
    findStays();
    int64_t most = live.empty() ? 0 : std::ranges::max(live);
    program.peakNodes.clear();
    for (size_t time = 0; time < live.size(); ++time) {
      bool isCall = order.steps[time].call < static_cast<int>(program.calls.size());
      if (live[time] < most || !isCall) {
        continue;
      }
      const std::string &node = program.calls[order.steps[time].call].node;
      if (std::ranges::find(program.peakNodes, node) == program.peakNodes.end()) {
        program.peakNodes.push_back(node);
      }
    }
  }

  void findStays() {
    program.stays.clear();
    int64_t steps = static_cast<int64_t>(order.steps.size());
    for (size_t i = 0; i < order.lives.size(); ++i) {
      Stay stay{static_cast<int>(i), 0, steps, 0};
      std::vector<int64_t> change(static_cast<size_t>(steps) + 2);
      for (const RowLife &life : order.lives[i]) {
        if (life.begin >= 0) {
          stay.begin = std::min(stay.begin, life.begin);
          stay.end = std::max(stay.end, std::min(life.end, steps));
          ++change[static_cast<size_t>(life.begin)];
          --change[static_cast<size_t>(life.end)];
        }
      }
      int64_t rows = 0, each = storages[i] == Storage::Block ? program.tensors[i].rows : 1;
      for (int64_t added : change) {
        rows += added;
        stay.most = std::max(stay.most, rows * each);
      }
      if (stay.most > 0) {
        program.stays.push_back(stay);
      }
    }
  }

  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

  Program &program;
  const std::vector<Storage> &storages;
  const RowOrder &order;
  std::vector<PlannedBuffer> buffers;
  std::vector<std::vector<size_t>> bufferOf; ///< [tensor][row]
  std::vector<size_t> owners;                ///< of buffers: themselves, or whom they overwrite
  size_t pinned = 0;                         ///< buffers that have their places
};

} // namespace

bool layOutRows(Program &program, const std::vector<Storage> &storages, const RowOrder &order) {
  program.steps = order.steps;
  return Layout(program, storages, order).run();
}

std::optional<Program> planRows(const Program &program, bool isInputByRows) {
  Program rows = program;
  rows.isInputByRows = isInputByRows;
  settleRows(rows);
  std::vector<Storage> storages = storagesOf(rows);
  std::optional<Program> best;
  bool isAwaited = !isInputByRows ||
                   (rows.inputs.size() == 1 && storages[rows.inputs[0].tensor] == Storage::Rows);
  if (!isAwaited) {
    return std::nullopt;
  }
  for (const RowOrder &order : orderRows(rows, storages)) {
    Program laidOut = rows;
    if (layOutRows(laidOut, storages, order) && (!best || laidOut.arenaBytes < best->arenaBytes)) {
      best = std::move(laidOut);
    }
  }
  if (best && isInputByRows) {
    best->stepOffset = best->arenaBytes;
    best->arenaBytes += kStepBytes;
  }
  return best;
}

} // namespace tenon::codegen::edge

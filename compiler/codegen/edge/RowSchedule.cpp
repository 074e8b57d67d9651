// The order of rows. The calls are cut into segments, one behind the other; in a segment a row is
// made when another asks for it. Which cuts have the least bytes live is found by dynamic
// programming over segments, each of which is tried out.
#include "compiler/codegen/edge/Rows.h"

#include <algorithm>
#include <limits>

namespace tenon::codegen::edge {
namespace {

/// Between which calls a tensor is there.
struct Span {
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;
};

class Scheduling {
public:
  Scheduling(const Program &wholeProgram, const std::vector<Storage> &howStored)
      : program(wholeProgram), storages(howStored), spans(wholeProgram.tensors.size()),
        writers(wholeProgram.tensors.size()), readers(wholeProgram.tensors.size()) {
    int64_t count = static_cast<int64_t>(program.calls.size());
    auto touch = [&](int tensor, int64_t at) {
      spans[tensor].first = std::min(spans[tensor].first, at);
      spans[tensor].last = std::max(spans[tensor].last, at);
    };
    for (int64_t i = 0; i < count; ++i) {
      const Call &call = program.calls[i];
      windows.push_back(windowOf(call));
      for (size_t k = 0; k < call.reads.size(); ++k) {
        touch(call.reads[k], i);
        readers[call.reads[k]].push_back({i, k});
      }
      touch(call.writes, i);
      writers[call.writes].push_back(i);
    }
    for (const Port &port : program.inputs) {
      if (!program.isInputByRows) {
        touch(port.tensor, -1);
      }
    }
    for (const Port &port : program.outputs) {
      touch(port.tensor, count);
    }
  }

  /// The most bytes that are live in the calls [begin, end).
  int64_t peakOf(int64_t begin, int64_t end) {
    enter(begin);
    run(begin, end);
    return peak;
  }

  /// The whole order with cuts at the ends of segments.
  RowOrder ordered(const std::vector<int64_t> &ends) {
    order = {};
    order.lives.resize(program.tensors.size());
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      bool isRows = storages[i] != Storage::Block;
      order.lives[i].resize(isRows ? static_cast<size_t>(program.tensors[i].rows) : 1);
    }
    enter(0);
    isRecording = true;
    for (const Port &port : program.inputs) {
      for (RowLife &life : order.lives[port.tensor]) {
        life.begin = program.isInputByRows ? -1 : 0;
      }
    }
    int64_t begin = 0;
    for (int64_t end : ends) {
      run(begin, end);
      begin = end;
    }
    isRecording = false;
    // What nothing frees is there to the end.
    for (std::vector<RowLife> &tensor : order.lives) {
      for (RowLife &life : tensor) {
        if (life.begin >= 0 && life.end < 0) {
          life.end = static_cast<int64_t>(order.steps.size()) + 1;
        }
      }
    }
    return std::move(order);
  }

  /// Ends of segments with the least peak, and those of the longest segments.
  std::vector<std::vector<int64_t>> cuts() {
    int64_t count = static_cast<int64_t>(program.calls.size());
    struct Best {
      int64_t peak = std::numeric_limits<int64_t>::max();
      int64_t segments = 0, begin = 0;
    };
    std::vector<Best> best(static_cast<size_t>(count) + 1);
    best[0].peak = 0;
    constexpr int64_t kLongest = 128; // calls of a segment; what a search through all ends takes
    for (int64_t begin = 0; begin < count; ++begin) {
      for (int64_t end = begin + 1; end <= std::min(count, begin + kLongest); ++end) {
        bool isAlone = program.calls[end - 1].form == RowForm::Whole;
        if (isAlone && end > begin + 1) {
          break;
        }
        Best next{std::max(best[begin].peak, peakOf(begin, end)), best[begin].segments + 1, begin};
        if (std::pair(next.peak, next.segments) < std::pair(best[end].peak, best[end].segments)) {
          best[end] = next;
        }
        if (isAlone) {
          break;
        }
      }
    }
    std::vector<int64_t> least, longest;
    for (int64_t end = count; end > 0; end = best[end].begin) {
      least.insert(least.begin(), end);
    }
    for (int64_t i = 0; i < count; ++i) {
      bool isCut = i + 1 == count || program.calls[i].form == RowForm::Whole ||
                   program.calls[i + 1].form == RowForm::Whole;
      if (isCut) {
        longest.push_back(i + 1);
      }
    }
    return {std::move(least), std::move(longest)};
  }

private:
  struct Reader {
    int64_t call;
    size_t operand;
  };

  /// What is whole before the call `begin`.
  void enter(int64_t begin) {
    made.assign(program.tensors.size(), 0);
    freed.assign(program.tensors.size(), 0);
    isLive.assign(program.tensors.size(), false);
    consumed.assign(program.calls.size(), {});
    next.assign(program.calls.size(), 0);
    live = 0;
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      if (spans[i].first < begin && spans[i].last >= begin) {
        made[i] = program.tensors[i].rows;
        isLive[i] = true;
        live += program.tensors[i].bytes;
      }
    }
    peak = live;
  }

  void run(int64_t begin, int64_t end) {
    first = begin;
    last = end;
    for (int64_t i = begin; i < end; ++i) {
      consumed[i].assign(program.calls[i].reads.size(), 0);
    }
    for (int64_t i = begin; i < end; ++i) {
      bool isWanted = spans[program.calls[i].writes].last >= end;
      while (isWanted && next[i] < stepsOf(program, program.calls[i])) {
        makeRow(i);
      }
    }
    for (const Port &port : program.inputs) {
      bool isRead = spans[port.tensor].first >= begin && spans[port.tensor].first < end;
      while (program.isInputByRows && isRead &&
             made[port.tensor] < program.tensors[port.tensor].rows) {
        awaitRow(port.tensor);
      }
    }
  }

  int64_t now() const { return static_cast<int64_t>(order.steps.size()) - 1; }

  void step(int64_t call, int64_t row) {
    if (isRecording) {
      order.steps.push_back({static_cast<int>(call), static_cast<int>(row)});
    }
  }

  void begin(int tensor, int64_t row) {
    bool isBlock = storages[tensor] == Storage::Block;
    if (isBlock && isLive[tensor]) {
      return;
    }
    isLive[tensor] = true;
    live += isBlock ? program.tensors[tensor].bytes : rowBytes(program.tensors[tensor]);
    peak = std::max(peak, live);
    if (isRecording) {
      order.lives[tensor][isBlock ? 0 : row].begin = now();
    }
  }

  void end(int tensor, int64_t row) {
    bool isBlock = storages[tensor] == Storage::Block;
    live -= isBlock ? program.tensors[tensor].bytes : rowBytes(program.tensors[tensor]);
    if (isRecording) {
      order.lives[tensor][isBlock ? 0 : row].end = now() + 1;
    }
  }

  /// Ends rows that no call of this segment needs any more.
  void release(int tensor) {
    if (spans[tensor].last >= last) {
      return;
    }
    int64_t rows = program.tensors[tensor].rows, low = rows;
    for (const Reader &reader : readers[tensor]) {
      bool isHere = reader.call >= first && reader.call < last;
      low = isHere ? std::min(low, consumed[reader.call][reader.operand]) : low;
    }
    if (storages[tensor] == Storage::Block) {
      if (low == rows && freed[tensor] < rows) {
        end(tensor, 0);
        freed[tensor] = rows;
      }
      return;
    }
    low = std::min(low, made[tensor]);
    for (; freed[tensor] < low; ++freed[tensor]) {
      end(tensor, freed[tensor]);
    }
  }

  void awaitRow(int tensor) {
    step(static_cast<int64_t>(program.calls.size()), made[tensor]);
    begin(tensor, made[tensor]);
    ++made[tensor];
    release(tensor);
  }

  void makeRow(int64_t index) {
    const Call &call = program.calls[index];
    int64_t row = next[index]++;
    for (size_t i = 0; i < call.reads.size(); ++i) {
      RowNeed need = needOf(program, call, windows[index], i, row);
      while (made[need.tensor] < need.high) {
        if (writers[need.tensor].empty()) {
          awaitRow(need.tensor);
        } else {
          makeRow(writers[need.tensor].front());
        }
      }
    }
    step(index, row);
    bool isLast = next[index] == stepsOf(program, call);
    if (call.form == RowForm::Sum) {
      begin(call.sums, 0);
    }
    if (call.form != RowForm::Sum || isLast) {
      bool isWhole = call.form == RowForm::Whole || call.form == RowForm::Sum;
      begin(call.writes, row);
      made[call.writes] = isWhole ? program.tensors[call.writes].rows : row + 1;
    }
    for (size_t i = 0; i < call.reads.size(); ++i) {
      consumed[index][i] = needOf(program, call, windows[index], i, row).next;
    }
    for (int tensor : call.reads) {
      release(tensor);
    }
    if (call.form == RowForm::Sum && isLast) {
      end(call.sums, 0);
    }
    release(call.writes); // what nobody reads
  }

  const Program &program;
  const std::vector<Storage> &storages;
  std::vector<RowWindow> windows; ///< of calls
  std::vector<Span> spans;
  std::vector<std::vector<int64_t>> writers;
  std::vector<std::vector<Reader>> readers;

  std::vector<int64_t> made, freed;           ///< rows of a tensor
  std::vector<bool> isLive;                   ///< since its first row
  std::vector<std::vector<int64_t>> consumed; ///< [call][operand]: the first row needed
  std::vector<int64_t> next;                  ///< row of a call
  int64_t first = 0, last = 0;                ///< calls of the segment
  int64_t live = 0, peak = 0;
  bool isRecording = false;
  RowOrder order;
};

} // namespace

std::vector<RowOrder> orderRows(const Program &program, const std::vector<Storage> &storages) {
  Scheduling scheduling(program, storages);
  std::vector<RowOrder> orders;
  for (const std::vector<int64_t> &ends : scheduling.cuts()) {
    orders.push_back(scheduling.ordered(ends));
  }
  return orders;
}

} // namespace tenon::codegen::edge

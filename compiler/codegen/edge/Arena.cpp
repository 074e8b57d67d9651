// Where tensors lie: whole ones, live from the call that begins them to the last that reads them.
// An operation that goes element by element may write where it reads.
#include "compiler/codegen/edge/Program.h"
#include "support/memory/OffsetPlanner.h"

#include <algorithm>
#include <numeric>

namespace tenon::codegen::edge {
namespace {

struct Lifetime {
  int64_t begin = -1, end = 0; ///< [begin, end); call i runs at i + 1, inputs are there at 0
};

std::vector<Lifetime> lifetimesOf(const Program &program) {
  std::vector<Lifetime> lifetimes(program.tensors.size());
  int64_t last = static_cast<int64_t>(program.calls.size()) + 1;
  auto touch = [&](int tensor, int64_t time) {
    Lifetime &lifetime = lifetimes[tensor];
    lifetime.begin = lifetime.begin < 0 ? time : lifetime.begin;
    lifetime.end = std::max(lifetime.end, time + 1);
  };
  for (const Port &port : program.inputs) {
    touch(port.tensor, 0);
  }
  for (const State &state : program.states) {
    touch(state.tensor, 0);
    touch(state.tensor, last);
  }
  for (size_t i = 0; i < program.calls.size(); ++i) {
    int64_t time = static_cast<int64_t>(i) + 1;
    for (int tensor : program.calls[i].reads) {
      touch(tensor, time);
    }
    touch(program.calls[i].writes, time);
  }
  for (const Port &port : program.outputs) {
    touch(port.tensor, last);
  }
  return lifetimes;
}

/// The nodes of the calls at which the live buffers have the most bytes, each once.
std::vector<std::string> peakNodes(const Program &program,
                                   const std::vector<PlannedBuffer> &buffers) {
  std::vector<std::string> nodes;
  int64_t most = 0;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    int64_t time = static_cast<int64_t>(i) + 1, live = 0;
    for (const PlannedBuffer &buffer : buffers) {
      live += buffer.lower <= time && time < buffer.upper ? buffer.size : 0;
    }
    if (live > most) {
      most = live;
      nodes.clear();
    }
    if (live == most && std::ranges::find(nodes, program.calls[i].node) == nodes.end()) {
      nodes.push_back(program.calls[i].node);
    }
  }
  return nodes;
}

} // namespace

void planArena(Program &program) {
  std::vector<Lifetime> lifetimes = lifetimesOf(program);
  // The buffer of each tensor: that of what it overwrites, or its own.
  std::vector<int> buffers(program.tensors.size());
  std::iota(buffers.begin(), buffers.end(), 0);
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const Call &call = program.calls[i];
    int64_t time = static_cast<int64_t>(i) + 1;
    if (!call.mayOverwrite ||
        program.tensors[call.reads.front()].bytes != program.tensors[call.writes].bytes) {
      continue;
    }
    int into = buffers[call.reads.front()];
    bool isFree = lifetimes[into].end == time + 1 && lifetimes[call.writes].begin == time;
    if (isFree) {
      buffers[call.writes] = into;
      lifetimes[into].end = lifetimes[call.writes].end;
    }
  }
  std::vector<PlannedBuffer> planned;
  std::vector<int> owners;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i] == static_cast<int>(i) && lifetimes[i].begin >= 0) {
      planned.push_back({lifetimes[i].begin, lifetimes[i].end, program.tensors[i].bytes});
      owners.push_back(static_cast<int>(i));
    }
  }
  constexpr int64_t kAlignment = 4; // for kernels that load words
  program.arenaBytes = OffsetPlanner().plan(planned, {.alignment = kAlignment}).bytes;
  program.peakNodes = peakNodes(program, planned);
  for (size_t i = 0; i < owners.size(); ++i) {
    program.tensors[owners[i]].offset = planned[i].offset;
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    program.tensors[i].offset = program.tensors[buffers[i]].offset;
  }
}

} // namespace tenon::codegen::edge

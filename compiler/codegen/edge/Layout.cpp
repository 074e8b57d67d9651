// Inputs with channels last: the copy that turns an input of a model with channels first is left
// to the caller.
#include "compiler/codegen/edge/Program.h"

#include <algorithm>

namespace tenon::codegen::edge {
namespace {

/// The call that alone reads an input, or none.
int onlyReader(const Program &program, int tensor) {
  int reader = -1;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    for (int read : program.calls[i].reads) {
      if (read == tensor && reader >= 0) {
        return -1;
      }
      reader = read == tensor ? static_cast<int>(i) : reader;
    }
  }
  return reader;
}

/// Whether it turns [n, c, h, w] into [n, h, w, c].
bool turnsChannelsLast(const Call &call, const std::vector<int64_t> &dims) {
  constexpr size_t kDims = 4;
  if (call.kernel != Kernel::Move || dims.size() != kDims) {
    return false;
  }
  int32_t batch = static_cast<int32_t>(dims[0]), channels = static_cast<int32_t>(dims[1]);
  int32_t positions = static_cast<int32_t>(dims[2] * dims[3]);
  int32_t picture = channels * positions, step = batch > 1 ? picture : 0;
  std::vector<int32_t> turn = {1, batch,     positions, channels, 0,    0,        step,
                               1, positions, 0,         0,        step, channels, 1};
  return call.shape == turn;
}

} // namespace

bool takeChannelsLast(Program &program) {
  size_t before = program.calls.size();
  for (Port &port : program.inputs) {
    int reader = onlyReader(program, port.tensor);
    if (reader < 0 || !turnsChannelsLast(program.calls[static_cast<size_t>(reader)], port.dims)) {
      continue;
    }
    port.tensor = program.calls[static_cast<size_t>(reader)].writes;
    std::rotate(port.dims.begin() + 1, port.dims.begin() + 2, port.dims.end());
    program.calls.erase(program.calls.begin() + reader);
  }
  return program.calls.size() < before;
}

} // namespace tenon::codegen::edge

// Runs a program on the host by the very kernels that the folder carries, for what its self-test
// expects.
#include "compiler/codegen/edge/Program.h"

#include "edge/kernels/add.h"
#include "edge/kernels/add_lite.h"
#include "edge/kernels/affine.h"
#include "edge/kernels/average.h"
#include "edge/kernels/average_lite.h"
#include "edge/kernels/conv.h"
#include "edge/kernels/depthwise.h"
#include "edge/kernels/fill.h"
#include "edge/kernels/maximum.h"
#include "edge/kernels/move.h"
#include "edge/kernels/mul.h"
#include "edge/kernels/softmax.h"
#include "edge/kernels/softmax_lite.h"
#include "edge/kernels/table.h"

#include <algorithm>
#include <cstring>

namespace tenon::codegen::edge {
namespace {

/// A call whose arena is there.
class Running {
public:
  Running(const Program &wholeProgram, const Call &one, int8_t *memory)
      : program(wholeProgram), call(one), arena(memory) {}

  void run() const {
    switch (call.kernel) {
    case Kernel::Conv:
      return tn_conv(shape<tn_conv_shape>(), in(0), array<int8_t>(0), array<int32_t>(1),
                     array<int32_t>(2), array<uint8_t>(3), out());
    case Kernel::Depthwise:
      return tn_depthwise(shape<tn_depthwise_shape>(), in(0), array<int8_t>(0), array<int32_t>(1),
                          array<int32_t>(2), array<uint8_t>(3), out());
    case Kernel::Add:
      return tn_add(shape<tn_add_shape>(), in(0), in(1), out());
    case Kernel::Mul:
      return tn_mul(shape<tn_mul_shape>(), in(0), in(1), out());
    case Kernel::Affine:
      return tn_affine(shape<tn_affine_shape>(), in(0), array<int32_t>(0), array<int64_t>(1),
                       out());
    case Kernel::Average:
      return tn_average(shape<tn_average_shape>(), in(0), array<int32_t>(0), array<uint8_t>(1),
                        out());
    case Kernel::Maximum:
      return tn_maximum(shape<tn_maximum_shape>(), in(0), out());
    case Kernel::Table:
      return tn_table(shape<tn_table_shape>(), in(0), array<int8_t>(0), out());
    case Kernel::Softmax:
      return tn_softmax(shape<tn_softmax_shape>(), in(0), array<uint16_t>(0), out());
    case Kernel::Move:
      return tn_move(shape<tn_move_shape>(), in(0), out());
    case Kernel::Fill:
      return tn_fill(shape<tn_fill_shape>(), out());
    case Kernel::AddLite:
      return tn_add_lite(shape<tn_add_lite_shape>(), in(0), in(1), out());
    case Kernel::AverageLite:
      return tn_average_lite(shape<tn_average_lite_shape>(), in(0), array<int32_t>(0), out());
    case Kernel::SoftmaxLite:
      return tn_softmax_lite(shape<tn_softmax_lite_shape>(), in(0), array<int32_t>(0), out());
    }
  }

private:
  /// Parameters are int32_t alone, so that the list of them is the struct.
  template <typename T> const T *shape() const {
    static_assert(sizeof(T) % sizeof(int32_t) == 0);
    return reinterpret_cast<const T *>(call.shape.data());
  }
  template <typename T> const T *array(size_t index) const {
    return reinterpret_cast<const T *>(call.constants[index].bytes.data());
  }
  int8_t *at(int tensor) const { return arena + program.tensors[tensor].offset; }
  const int8_t *in(size_t index) const { return at(call.reads[index]); }
  int8_t *out() const { return at(call.writes); }

  const Program &program;
  const Call &call;
  int8_t *arena;
};

uint32_t hashOf(const int8_t *bytes, int64_t size) {
  constexpr uint32_t kOffset = 2166136261u, kPrime = 16777619u;
  uint32_t hash = kOffset;
  for (int64_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<uint8_t>(bytes[i])) * kPrime;
  }
  return hash;
}

} // namespace

std::vector<int8_t> selfTestInput(size_t bytes, uint32_t &state) {
  std::vector<int8_t> input(bytes);
  for (int8_t &byte : input) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<int8_t>(static_cast<uint8_t>(state >> 24));
  }
  return input;
}

std::vector<uint32_t> layerHashes(const Program &program) {
  std::vector<int8_t> arena(static_cast<size_t>(program.arenaBytes));
  for (const State &kept : program.states) {
    std::ranges::copy(kept.initial, arena.begin() + program.tensors[kept.tensor].offset);
  }
  uint32_t state = kSelfTestSeed;
  for (const Port &port : program.inputs) {
    const Tensor &tensor = program.tensors[port.tensor];
    std::ranges::copy(selfTestInput(static_cast<size_t>(tensor.bytes), state),
                      arena.begin() + tensor.offset);
  }
  std::vector<uint32_t> hashes;
  for (const Call &call : program.calls) {
    Running(program, call, arena.data()).run();
    const Tensor &written = program.tensors[call.writes];
    hashes.push_back(call.completes ? hashOf(arena.data() + written.offset, written.bytes) : 0);
  }
  return hashes;
}

} // namespace tenon::codegen::edge

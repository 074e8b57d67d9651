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
#include "edge/kernels/mean.h"
#include "edge/kernels/move.h"
#include "edge/kernels/mul.h"
#include "edge/kernels/softmax.h"
#include "edge/kernels/softmax_lite.h"
#include "edge/kernels/table.h"

#include <algorithm>
#include <cstring>

namespace tenon::codegen::edge {
namespace {

/// A call whose arena is there, or the step of a row.
class Running {
public:
  Running(const Program &wholeProgram, const Call &one, int stepRow, int8_t *memory)
      : program(wholeProgram), call(one), row(stepRow), arena(memory) {}

  void run() const {
    switch (call.kernel) {
    case Kernel::Conv:
      return tn_conv(shape<tn_conv_shape>(), begin(), end(shape<tn_conv_shape>()->out_h), in(0),
                     places(), array<int8_t>(0), array<int32_t>(1), array<int32_t>(2),
                     array<uint8_t>(3), out());
    case Kernel::Depthwise:
      return tn_depthwise(shape<tn_depthwise_shape>(), begin(),
                          end(shape<tn_depthwise_shape>()->out_h), in(0), places(),
                          array<int8_t>(0), array<int32_t>(1), array<int32_t>(2), array<uint8_t>(3),
                          out());
    case Kernel::Add:
      return tn_add(shape<tn_add_shape>(), in(0), in(1), out());
    case Kernel::Mul:
      return tn_mul(shape<tn_mul_shape>(), in(0), in(1), out());
    case Kernel::Affine:
      return tn_affine(shape<tn_affine_shape>(), in(0), array<int32_t>(0), array<int64_t>(1),
                       out());
    case Kernel::Average:
      return tn_average(shape<tn_average_shape>(), begin(), end(shape<tn_average_shape>()->out_h),
                        in(0), places(), array<int32_t>(0), array<uint8_t>(1), out());
    case Kernel::Maximum:
      return tn_maximum(shape<tn_maximum_shape>(), begin(), end(shape<tn_maximum_shape>()->out_h),
                        in(0), places(), out());
    case Kernel::Table:
      return tn_table(shape<tn_table_shape>(), in(0), array<int8_t>(0), out());
    case Kernel::Softmax:
      return tn_softmax(shape<tn_softmax_shape>(), in(0), array<uint16_t>(0), out());
    case Kernel::Move:
      return tn_move(shape<tn_move_shape>(), in(0), out());
    case Kernel::Fill:
      return tn_fill(shape<tn_fill_shape>(), out());
    case Kernel::Mean:
      return tn_mean(shape<tn_mean_shape>(), row, in(0), array<int32_t>(0), array<uint8_t>(1),
                     reinterpret_cast<int32_t *>(arena + program.tensors[call.sums].offset), out());
    case Kernel::AddLite:
      return tn_add_lite(shape<tn_add_lite_shape>(), in(0), in(1), out());
    case Kernel::AverageLite:
      return tn_average_lite(shape<tn_average_lite_shape>(), begin(),
                             end(shape<tn_average_lite_shape>()->out_h), in(0), places(),
                             array<int32_t>(0), out());
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
  /// Of a window: all rows, or the step's.
  int32_t begin() const { return call.form == RowForm::Window ? row : 0; }
  int32_t end(int32_t rows) const { return call.form == RowForm::Window ? row + 1 : rows; }
  const uint16_t *places() const {
    const std::vector<uint16_t> &all = program.tensors[call.reads.front()].places;
    return call.form == RowForm::Window && !all.empty() ? all.data() : nullptr;
  }
  const int8_t *in(size_t index) const { return arena + readOffset(program, call, index, row); }
  int8_t *out() const { return arena + writeOffset(program, call, row); }

  const Program &program;
  const Call &call;
  int32_t row;
  int8_t *arena;
};

constexpr uint32_t kHashBegin = 2166136261u;

uint32_t hashOf(const int8_t *bytes, int64_t size, uint32_t hash) {
  constexpr uint32_t kPrime = 16777619u;
  for (int64_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<uint8_t>(bytes[i])) * kPrime;
  }
  return hash;
}

uint32_t hashOf(uint32_t word, uint32_t hash) {
  for (int shift = 0; shift < 32; shift += 8) {
    int8_t byte = static_cast<int8_t>(static_cast<uint8_t>(word >> shift));
    hash = hashOf(&byte, 1, hash);
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

std::vector<LayerHash> layerHashes(const Program &program) {
  std::vector<int8_t> arena(static_cast<size_t>(program.arenaBytes));
  for (const State &kept : program.states) {
    std::ranges::copy(kept.initial, arena.begin() + program.tensors[kept.tensor].offset);
  }
  std::vector<int8_t> awaited;
  uint32_t state = kSelfTestSeed;
  for (const Port &port : program.inputs) {
    const Tensor &tensor = program.tensors[port.tensor];
    std::vector<int8_t> input = selfTestInput(static_cast<size_t>(tensor.bytes), state);
    if (program.isInputByRows) {
      awaited = std::move(input);
    } else {
      std::ranges::copy(input, arena.begin() + tensor.offset);
    }
  }
  std::vector<LayerHash> hashes(program.calls.size(), {kHashBegin, kHashBegin});
  for (const Step &step : stepsOf(program)) {
    if (step.call == static_cast<int>(program.calls.size())) {
      int tensor = program.inputs.front().tensor;
      int64_t bytes = program.tensors[tensor].bytes / program.tensors[tensor].rows;
      std::copy_n(awaited.begin() + step.row * bytes, bytes,
                  arena.begin() + rowOffset(program.tensors[tensor], step.row));
      continue;
    }
    const Call &call = program.calls[step.call];
    Running(program, call, step.row, arena.data()).run();
    MadeRow made = madeRow(program, step);
    LayerHash &hash = hashes[static_cast<size_t>(step.call)];
    hash.bytes = hashOf(arena.data() + made.offset, made.bytes, hash.bytes);
    if (made.bytes > 0) {
      hash.places = hashOf(static_cast<uint32_t>(made.offset), hash.places);
    }
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    hashes[i] = program.calls[i].completes ? hashes[i] : LayerHash();
  }
  return hashes;
}

} // namespace tenon::codegen::edge

// Relies on the compiler's proof that rows do not meet (engine::Instruction::symbol).

#include "runtime/core/RowParts.h"

#include <algorithm>

namespace tenon::runtime {

using engine::Plan;

namespace {

/// For each stage: with four, a stage waits for the others in a fifth of the time.
constexpr int64_t kPartsOfStage = 4;

uint32_t rowsSymbol(const Plan &plan) {
  for (const engine::Instruction &instruction : plan.instructions) {
    bool isPassed = instruction.kind == engine::InstructionKind::Collective &&
                    instruction.collective == engine::CollectiveKind::SendReceive;
    if (isPassed) {
      return instruction.symbol;
    }
  }
  return engine::kNone;
}

bool hasRows(const Plan &plan, const engine::Port &port, uint32_t symbol) {
  return !port.dims.empty() && plan.exprs.symbolIndex(port.dims[0]) == symbol;
}

} // namespace

bool RowParts::cut(const Plan &plan, const RunTensors &whole,
                   std::span<const int64_t> outputBytes) {
  uint32_t symbol = rowsSymbol(plan);
  int64_t rows = 0;
  size_t allDims = 0, inputCount = whole.inputs.size(), outputCount = whole.outputs.size();
  for (const InputBinding &input : whole.inputs) {
    allDims += input.dims.size();
  }
  // The compiler counts rows by the first input.
  if (inputCount != 0 && hasRows(plan, plan.inputs[0], symbol)) {
    rows = whole.inputs[0].dims[0];
  }
  for (size_t i = 0; i < outputCount; ++i) {
    bool hasRoom = whole.outputs[i].data &&
                   whole.outputs[i].bytes >= static_cast<uint64_t>(outputBytes[i]) &&
                   hasRows(plan, plan.outputs[i], symbol);
    rows = hasRoom ? rows : 0;
  }
  count = static_cast<size_t>(std::min(rows, kPartsOfStage * int64_t(plan.stages)));
  if (count < 2) {
    return false;
  }
  inputs = std::make_unique<InputBinding[]>(count * inputCount);
  outputs = std::make_unique<OutputBinding[]>(count * outputCount);
  parts = std::make_unique<RunTensors[]>(count);
  dims.assign(count * allDims, 0);
  int64_t *shape = dims.data();
  for (size_t part = 0; part < count; ++part) {
    int64_t first = rows * int64_t(part) / int64_t(count);
    int64_t own = rows * int64_t(part + 1) / int64_t(count) - first;
    InputBinding *in = &inputs[part * inputCount];
    OutputBinding *out = &outputs[part * outputCount];
    parts[part] = {{in, inputCount}, {out, outputCount}};
    for (size_t i = 0; i < inputCount; ++i) {
      in[i] = whole.inputs[i];
      int64_t *end = std::copy(in[i].dims.begin(), in[i].dims.end(), shape);
      if (hasRows(plan, plan.inputs[i], symbol)) {
        int64_t bytes = int64_t(bitWidth(plan.inputs[i].dtype) / 8) * first;
        for (const int64_t *dim = shape + 1; dim != end; ++dim) {
          bytes *= *dim;
        }
        in[i].data = static_cast<const std::byte *>(in[i].data) + bytes;
        *shape = own;
      }
      in[i].dims = {shape, end};
      shape = end;
    }
    for (size_t i = 0; i < outputCount; ++i) {
      int64_t bytes = outputBytes[i] / rows;
      out[i] = whole.outputs[i];
      out[i].data = static_cast<std::byte *>(out[i].data) + bytes * first;
      out[i].bytes = static_cast<uint64_t>(bytes * own);
    }
  }
  return true;
}

} // namespace tenon::runtime

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

/// From `data` on, the bytes of `all` rows up to number `row`.
template <typename Data> Data *behind(Data *data, int64_t bytes, int64_t row, int64_t all) {
  return static_cast<std::conditional_t<std::is_const_v<Data>, const std::byte, std::byte> *>(
             data) +
         bytes / all * row;
}

} // namespace

bool RowParts::cut(const Plan &plan, const RunTensors &whole,
                   std::span<const int64_t> outputBytes) {
  uint32_t symbol = rowsSymbol(plan);
  int64_t rows = 0;
  for (size_t i = 0; i < whole.inputs.size() && symbol != engine::kNone; ++i) {
    rows = hasRows(plan, plan.inputs[i], symbol) ? whole.inputs[i].dims[0] : rows;
  }
  int64_t count = std::min(rows, kPartsOfStage * int64_t(plan.stages));
  for (size_t i = 0; i < whole.outputs.size(); ++i) {
    bool hasRoom = whole.outputs[i].data &&
                   whole.outputs[i].bytes >= static_cast<uint64_t>(outputBytes[i]) &&
                   hasRows(plan, plan.outputs[i], symbol);
    count = hasRoom ? count : 0;
  }
  if (count < 2) {
    return false;
  }
  inputs.clear();
  outputs.clear();
  dims.clear();
  parts.clear();
  for (int64_t part = 0; part < count; ++part) {
    int64_t first = rows * part / count, end = rows * (part + 1) / count;
    for (size_t i = 0; i < whole.inputs.size(); ++i) {
      InputBinding own = whole.inputs[i];
      std::vector<int64_t> &shape = dims.emplace_back(own.dims.begin(), own.dims.end());
      if (hasRows(plan, plan.inputs[i], symbol)) {
        int64_t bytes = int64_t(bitWidth(plan.inputs[i].dtype) / 8);
        for (int64_t dim : own.dims) {
          bytes *= dim;
        }
        own.data = behind(own.data, bytes, first, rows);
        shape[0] = end - first;
      }
      inputs.push_back(own);
    }
    for (size_t i = 0; i < whole.outputs.size(); ++i) {
      OutputBinding own = whole.outputs[i];
      own.data = behind(own.data, outputBytes[i], first, rows);
      own.bytes = static_cast<uint64_t>(outputBytes[i] / rows * (end - first));
      outputs.push_back(own);
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].dims = dims[i];
  }
  size_t inputCount = whole.inputs.size(), outputCount = whole.outputs.size();
  for (size_t part = 0; part < static_cast<size_t>(count); ++part) {
    parts.push_back({std::span(inputs).subspan(part * inputCount, inputCount),
                     std::span(outputs).subspan(part * outputCount, outputCount)});
  }
  return true;
}

} // namespace tenon::runtime

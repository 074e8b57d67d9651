// Where a step of a program reads and writes.
#include "compiler/codegen/edge/Program.h"

#include <algorithm>
#include <limits>

namespace tenon::codegen::edge {

std::vector<Step> stepsOf(const Program &program) {
  std::vector<Step> steps = program.steps;
  for (size_t i = 0; program.steps.empty() && i < program.calls.size(); ++i) {
    steps.push_back({static_cast<int>(i), 0});
  }
  return steps;
}

int64_t rowOffset(const Tensor &tensor, int64_t row) {
  return tensor.places.empty() ? tensor.offset + row * (tensor.bytes / tensor.rows)
                               : kPlaceUnit * tensor.places[static_cast<size_t>(row)];
}

int64_t stepCallBytes(const Program &program) {
  return program.calls.size() <= std::numeric_limits<uint8_t>::max() ? 1 : 2;
}

int64_t stepRowBytes(const Program &program) {
  auto isLarge = [](const Step &step) { return step.row > std::numeric_limits<uint8_t>::max(); };
  return std::ranges::any_of(program.steps, isLarge) ? 2 : 1;
}

int64_t rowTableBytes(const Program &program) {
  int64_t steps = static_cast<int64_t>(program.steps.size());
  int64_t bytes = steps * (stepCallBytes(program) + stepRowBytes(program));
  for (const Tensor &tensor : program.tensors) {
    bytes += static_cast<int64_t>(tensor.places.size() * sizeof(uint16_t));
  }
  return bytes;
}

bool readsRow(const Program &program, const Call &call, size_t operand) {
  bool isRepeated =
      operand == 1 && program.tensors[call.reads[1]].bytes != program.tensors[call.writes].bytes;
  return (call.form == RowForm::Each && !isRepeated) || call.form == RowForm::Sum;
}

int64_t readOffset(const Program &program, const Call &call, size_t operand, int64_t row) {
  const Tensor &tensor = program.tensors[call.reads[operand]];
  if (readsRow(program, call, operand)) {
    return rowOffset(tensor, row);
  }
  return tensor.places.empty() || call.form != RowForm::Window ? tensor.offset : 0;
}

int64_t writeOffset(const Program &program, const Call &call, int64_t row) {
  bool isRow = call.form == RowForm::Window || call.form == RowForm::Each;
  const Tensor &tensor = program.tensors[call.writes];
  return isRow ? rowOffset(tensor, row) : tensor.offset;
}

MadeRow madeRow(const Program &program, const Step &step) {
  const Call &call = program.calls[static_cast<size_t>(step.call)];
  const Tensor &tensor = program.tensors[call.writes];
  int64_t bytes = tensor.bytes;
  if (call.form == RowForm::Window || call.form == RowForm::Each) {
    bytes /= tensor.rows;
  } else if (call.form == RowForm::Sum) {
    bool isLast = step.row + 1 == program.tensors[call.reads.front()].rows;
    bytes = isLast ? bytes : 0;
  }
  return {writeOffset(program, call, step.row), call.completes ? bytes : 0};
}

} // namespace tenon::codegen::edge

// How the parts of planRows work together. Internal to this folder.
#pragma once

#include "compiler/codegen/edge/Program.h"

namespace tenon::codegen::edge {

/// Of the number of the step, where the input comes by rows.
inline constexpr int64_t kStepBytes = 4;

/// How a tensor lies in memory.
enum class Storage : uint8_t {
  Rows,   ///< each row where there is room
  Block,  ///< whole, from its first row to its last reader
  Pinned, ///< an input: whole, but its rows are freed one by one
};

/// Live in the steps [begin, end).
struct RowLife {
  int64_t begin = -1, end = -1;
};

/// When rows are there: of each tensor its rows, or with Storage::Block one.
using RowLives = std::vector<std::vector<RowLife>>;

/// Of rows under RowForm::Window.
struct RowWindow {
  int64_t stride = 1, pad = 0, extent = 1;
};
RowWindow windowOf(const Call &call);

/// A step reads rows below `high`; those below `next` are needed no longer behind it.
struct RowNeed {
  int tensor = -1;
  int64_t high = 0, next = 0;
};
RowNeed needOf(const Program &program, const Call &call, const RowWindow &window, size_t operand,
               int64_t row);
/// Whether the operand has fewer elements than the result, so that each row reads all of it.
bool isRepeated(const Program &program, const Call &call, size_t operand);
/// Steps that a call takes.
int64_t stepsOf(const Program &program, const Call &call);
inline int64_t rowBytes(const Tensor &tensor) { return tensor.bytes / tensor.rows; }

/// Settles the rows of each tensor and the form of each call. (RowForms.cpp)
void settleRows(Program &program);
std::vector<Storage> storagesOf(const Program &program);

/// Orders of rows, the one of the least live bytes first. Sets no steps. (RowSchedule.cpp)
struct RowOrder {
  std::vector<Step> steps;
  RowLives lives;
};
std::vector<RowOrder> orderRows(const Program &program, const std::vector<Storage> &storages);

/// Gives every row its place. False beyond the reach of places. (RowLayout.cpp)
bool layOutRows(Program &program, const std::vector<Storage> &storages, const RowOrder &order);

} // namespace tenon::codegen::edge

// Kernels for columns: softmax, norms and reductions over dims of which others lie behind, with the
// elementwise work around them. Relies on RowsWork, whose `behind` is not empty here.
#pragma once

#include "compiler/codegen/cuda/rows/RowsWork.h"

namespace tenon::codegen::cuda {

/// A block is a table of threads: along its width they take neighbouring strips of so many lanes
/// (columns), along its height elements of the same columns, which meet in shared memory; the
/// blocks of a cluster stand above each other.
struct ColumnsLayout {
  int64_t lanes = 1, width = 1, height = 1;
  int64_t blocks = 1;
  /// Elements of a column that a thread holds in registers; 0 if it reads them again for each
  /// reduction, however many they are.
  int64_t steps = 0;
  /// Columns side by side that are reduced together: a region's, no choice.
  int64_t group = 1;
  int64_t threads() const { return width * height; }
  int64_t columns() const { return width * lanes; }
  /// Groups, or parts of one, that a thread has.
  int64_t parts() const { return group < lanes ? lanes / group : 1; }
  /// Threads side by side whose parts make a group.
  int64_t beside() const { return group > lanes ? group / lanes : 1; }
};
template <typename Visitor> void visitParameters(Visitor &visit, ColumnsLayout &layout) {
  visit("tile", layout.lanes, layout.width, layout.height);
  visit("cluster", layout.blocks);
  visit("steps", layout.steps);
}

/// What the layout depends on.
struct ColumnsInfo {
  std::optional<int64_t> length; ///< of a column, if it is constant
  int64_t longest = 1;           ///< that it may have
  int64_t columns = 1;           ///< or a guess
  int64_t multiple = 1;          ///< of the number of columns that lie side by side
  int64_t elementBytes = 4;      ///< of the widest tensor of all elements
  int64_t tensors = 1;           ///< that are read at all elements
  int64_t group = 1;             ///< columns side by side that are reduced together
};

/// How columns are shared out; nothing if there are so few that blocks should share each.
std::optional<ColumnsLayout> columnsLayout(const target::Target &gpu, const ColumnsInfo &info);

/// From the first of a region's reductions on, how many do not need another one's result: those
/// meet at once.
size_t countOfIndependent(llvm::ArrayRef<mlir::linalg::GenericOp> reductions);

/// Emits the kernel; `hasFailed` is set after a diagnostic.
void emitColumns(RegionBuilder &region, const RowsWork &work, const ColumnsLayout &layout,
                 bool &hasFailed);

} // namespace tenon::codegen::cuda

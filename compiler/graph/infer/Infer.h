// What the shape rules and verifiers of graph/infer share: result types from dims, and the checks
// of attributes that drive arithmetic. Every fault of a model is a diagnostic at `location`.
#pragma once

#include "compiler/graph/TensorInfo.h"

#include <optional>

namespace tenon::tn::infer {

using Location = std::optional<mlir::Location>;
using Types = llvm::SmallVectorImpl<mlir::Type>;

/// Attributes and dims that enter window arithmetic stay below this, so that it cannot overflow.
constexpr int64_t kLargestExtent = int64_t(1) << 40;

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
inline mlir::Type elementOf(mlir::Value value) { return typeOf(value).getElementType(); }
inline Dims dimsOf(mlir::Value value) { return getDims(value.getType()); }

/// "[s0, 3, 224]"
std::string text(llvm::ArrayRef<mlir::AffineExpr> dims);
std::string text(mlir::AffineExpr dim);

/// Appends the tensor type of these dims, simplified. Negative dims and sizes in bytes beyond int64
/// are errors.
llvm::LogicalResult append(Location location, llvm::ArrayRef<mlir::AffineExpr> dims,
                           mlir::Type element, Types &types);

llvm::LogicalResult checkAxis(Location location, int64_t axis, int64_t rank);
llvm::LogicalResult checkSameElement(Location location, mlir::Value a, mlir::Value b);
/// Error unless the dims are known, or assumed, to be equal for every value of the symbols.
llvm::LogicalResult checkSameDim(Location location, mlir::AffineExpr a, mlir::AffineExpr b,
                                 llvm::StringRef what);
/// Error unless `value` has these dims.
llvm::LogicalResult checkDims(Location location, mlir::Value value,
                              llvm::ArrayRef<mlir::AffineExpr> dims, llvm::StringRef what);
/// Error unless dims `part` broadcast to `whole` without changing it.
llvm::LogicalResult checkBroadcastsTo(Location location, llvm::ArrayRef<mlir::AffineExpr> part,
                                      llvm::ArrayRef<mlir::AffineExpr> whole, llvm::StringRef what);
/// Error unless there are `count` values, each in [least, kLargestExtent].
llvm::LogicalResult checkExtents(Location location, llvm::ArrayRef<int64_t> values, size_t count,
                                 int64_t least, llvm::StringRef what);

/// broadcastDims with a diagnostic.
mlir::FailureOr<Dims> broadcast(Location location, llvm::ArrayRef<mlir::AffineExpr> a,
                                llvm::ArrayRef<mlir::AffineExpr> b);

/// A window sliding over one spatial dim.
struct Window {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t padBegin = 0;
  int64_t padEnd = 0;

  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

/// Checks the attributes of a windowed operation over `spatial` dims and gives its windows.
mlir::FailureOr<llvm::SmallVector<Window>> makeWindows(Location location, size_t spatial,
                                                       llvm::ArrayRef<int64_t> kernel,
                                                       llvm::ArrayRef<int64_t> strides,
                                                       llvm::ArrayRef<int64_t> pads,
                                                       llvm::ArrayRef<int64_t> dilations);

/// How many windows fit (ONNX's definition of ceil mode: none starts in the padding at the end).
mlir::FailureOr<mlir::AffineExpr> windowCount(Location location, mlir::AffineExpr size,
                                              const Window &window, bool ceilMode);

} // namespace tenon::tn::infer

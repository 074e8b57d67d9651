// A region on its way to kernels: its `tn` function, the same as linalg on tensors, its buffers and
// the steps made so far. Every strategy works on it.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/graph/Shape.h"
#include "compiler/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <memory>
#include <optional>
#include <vector>

namespace tenon::kernels {
struct Library;
}

namespace tenon::codegen::cuda {

using KernelLibraries = std::vector<std::shared_ptr<const kernels::Library>>;

class RegionBuilder {
public:
  RegionBuilder(mlir::func::FuncOp source, llvm::StringRef symbol, const target::Target &gpu,
                KernelLibraries libraries = {});

  llvm::StringRef strategy();
  const target::Target &target() const { return gpu; }
  /// What Lowering makes of the region: a function whose arguments are the region's inputs, then
  /// its symbols (of index type); it returns the region's outputs. Made on the first call; fails
  /// after a diagnostic.
  mlir::FailureOr<mlir::func::FuncOp> linalg();

  /// Bits of the index type in this region's kernels: 32 where no place in any tensor needs more.
  unsigned indexBits() { return bits; }

  /// Of a tensor of the linalg function: its dims over the region's symbols.
  tn::Dims dims(mlir::Value tensor);
  /// The expression over the region's symbols that an index value of the linalg function is.
  mlir::AffineExpr expressionOf(mlir::Value index);
  /// The sizes of the loops of a linalg op.
  tn::Dims loopSizes(mlir::linalg::LinalgOp op);
  /// The value of an expression, or a guess of it for sizes that vary.
  int64_t estimate(mlir::AffineExpr expression);
  int64_t estimate(llvm::ArrayRef<mlir::AffineExpr> dims);

  /// Numbers of buffers as RegionStep::buffers has them.
  unsigned input(unsigned i) { return i; }
  unsigned output(unsigned i) { return source.getNumArguments() + i; }
  unsigned addTemporary(mlir::AffineExpr bytes);

  /// States that a tensor of the linalg function lies in a buffer from here on, and tells where.
  void setBuffer(mlir::Value tensor, unsigned buffer) { buffers[tensor] = buffer; }
  std::optional<unsigned> bufferOf(mlir::Value tensor);
  /// Whether the plan may let the region's output lie over this buffer.
  bool mayAliasOutput(unsigned buffer);

  mlir::func::FuncOp source;
  const target::Target &gpu;
  /// The first kernel's name; others append a number.
  std::string symbol;
  /// The user's.
  KernelLibraries libraries;
  /// What the region has of them, as a module of PTX; empty for nothing.
  std::string given;
  /// Holds the kernels.
  mlir::OwningOpRef<mlir::ModuleOp> kernels;
  RegionCode code;
  unsigned symbolCount = 0;

private:
  bool isBelow32Bits();

  mlir::OwningOpRef<mlir::ModuleOp> lowered;
  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Value, unsigned> buffers;
  llvm::SmallVector<int64_t> guesses;
  unsigned bits = 64;
};

/// Bytes of an element of a storage type.
int64_t byteSize(mlir::Type storage);

} // namespace tenon::codegen::cuda

// What a function that evaluates one operation gets: operands, the dims of the results, symbols,
// weights and threads. Faults of the data are a Status; results are made through it.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/graph/WeightStore.h"
#include "compiler/reference/Tensor.h"
#include "support/threads/ThreadPool.h"

#include "mlir/IR/Operation.h"

#include <vector>

namespace tenon::reference {

/// How floats are computed and held.
enum class Precision {
  Native, ///< each result rounded to its type; sums, norms and products accumulate in double
  F64,    ///< every float tensor is a double, nothing is rounded: the oracle for error bounds
};

/// The type in which an element type is held; none if the interpreter cannot hold it.
std::optional<DType> storageOf(mlir::Type element, Precision precision);

using Sizes = llvm::SmallVector<int64_t, 6>;

/// One operation being evaluated.
struct Evaluation {
  mlir::Operation *op;
  llvm::ArrayRef<Tensor> operands;
  llvm::ArrayRef<int64_t> symbols;
  tn::WeightStore *weights;
  Precision precision;
  ThreadPool &pool;
  std::vector<Tensor> results;

  /// The tensor of an operand given as the operation's accessor returns it; null if absent.
  const Tensor *find(mlir::Value operand) const;
  const Tensor &get(mlir::Value operand) const { return *find(operand); }

  /// The dims of a type, symbols replaced by their values.
  Result<Sizes> sizesOf(mlir::Type type) const;
  /// A tensor of zeros for the next result.
  Result<Tensor> makeResult() const;
  Status finish(Tensor result) {
    results.push_back(std::move(result));
    return Status::ok();
  }
};

Status badOperand(const std::string &message);

using OpFunction = Status (*)(Evaluation &);
struct OpRow {
  llvm::StringRef name;
  OpFunction function;
};
/// Null if the reference has no function for an operation of that name.
OpFunction findOpFunction(llvm::StringRef name);

/// The rows of each family, one file in ops/ each.
llvm::ArrayRef<OpRow> unaryOps();
llvm::ArrayRef<OpRow> binaryOps();
llvm::ArrayRef<OpRow> reduceOps();
llvm::ArrayRef<OpRow> normalizeOps();
llvm::ArrayRef<OpRow> contractionOps();
llvm::ArrayRef<OpRow> convolutionOps();
llvm::ArrayRef<OpRow> poolingOps();
llvm::ArrayRef<OpRow> resizeOps();
llvm::ArrayRef<OpRow> movementOps();
llvm::ArrayRef<OpRow> indexingOps();
llvm::ArrayRef<OpRow> quantizeOps();
llvm::ArrayRef<OpRow> structureOps();
llvm::ArrayRef<OpRow> winogradOps();
llvm::ArrayRef<OpRow> rareOps();
llvm::ArrayRef<OpRow> recurrentOps();
llvm::ArrayRef<OpRow> customOps();

/// Row-major strides in elements.
Sizes stridesOf(llvm::ArrayRef<int64_t> dims);
int64_t productOf(llvm::ArrayRef<int64_t> dims);
/// Strides with which an operand of dims `part` is read at the positions of `whole`: 0 where it is
/// repeated. An error if it does not broadcast.
Result<Sizes> broadcastStrides(llvm::ArrayRef<int64_t> part, llvm::ArrayRef<int64_t> whole);

/// Walks the positions of `dims` in row-major order and keeps an offset into several strided views.
template <size_t Views> class Walker {
public:
  Walker(llvm::ArrayRef<int64_t> dims, const std::array<Sizes, Views> &strides, int64_t position)
      : dims(dims), strides(strides), index(dims.size()) {
    for (size_t i = dims.size(); i-- > 0;) {
      index[i] = dims[i] ? position % dims[i] : 0;
      position = dims[i] ? position / dims[i] : 0;
      for (size_t view = 0; view < Views; ++view) {
        offsets[view] += index[i] * strides[view][i];
      }
    }
  }

  int64_t offset(size_t view = 0) const { return offsets[view]; }
  int64_t at(size_t dim) const { return index[dim]; }

  void next() {
    for (size_t i = dims.size(); i-- > 0;) {
      for (size_t view = 0; view < Views; ++view) {
        offsets[view] += strides[view][i];
      }
      if (++index[i] < dims[i]) {
        return;
      }
      for (size_t view = 0; view < Views; ++view) {
        offsets[view] -= index[i] * strides[view][i];
      }
      index[i] = 0;
    }
  }

private:
  llvm::ArrayRef<int64_t> dims;
  std::array<Sizes, Views> strides;
  Sizes index;
  std::array<int64_t, Views> offsets = {};
};

} // namespace tenon::reference

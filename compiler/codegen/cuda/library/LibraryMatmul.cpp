// A product with its operands' transposes and batch dims as strides. Relies on cuBLASLt taking one
// stride a batch: dims that cannot be walked by one stride are left to generated code.
#include "compiler/codegen/common/region/Programs.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/graph/Float8.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Tiles of 128 x 128 of the algorithm for sm_90, which the heuristics put behind larger ones. For
/// wide results that read nothing but the operands they are faster: measured on an H200 in f16 with
/// cuBLASLt 13.1, first choice and this one, 24,576 x 3,072 x 1,024 238 and 214 us, 12,608 x 2,304
/// x 768 82 and 71, 12,608 x 3,072 x 768 98 and 86.5, 4,096 x 3,072 x 768 32.9 and 30.4; with a
/// residual the first choice is. No other architecture is proposed this algorithm.
constexpr int32_t kMeasuredVersion = 1301, kWarpgroupAlgorithm = 66, kTile128x128 = 20;
constexpr int64_t kMinWideColumns = 2048, kMinWideElements = int64_t(8) << 20;

engine::MatmulHint hintFor(const engine::MatmulCall &call, AffineExpr rows, AffineExpr columns) {
  bool isHalf = call.type == DType::F16 || call.type == DType::BF16;
  int64_t wide = tn::constantDim(columns).value_or(0);
  if (!isHalf || call.hasResidual || wide < kMinWideColumns) {
    return {};
  }
  int64_t leastRows = (kMinWideElements + wide - 1) / wide;
  if (tn::constantDim(rows).value_or(leastRows) < leastRows) {
    return {};
  }
  return {kMeasuredVersion, kWarpgroupAlgorithm, kTile128x128, 1, static_cast<int32_t>(leastRows)};
}

bool isUnit(AffineExpr dim) { return tn::constantDim(dim) == 1; }

bool isZero(AffineExpr dim) { return tn::constantDim(dim) == 0; }

/// The last two dims of an operand in the order of the product, with the dims before them.
struct Matrix {
  uint32_t argument = 0;
  bool isTransposed = false;
  AffineExpr rows, columns;
  AffineExpr leading; ///< elements from one stored row to the next
  tn::Dims batch;
  tn::Dims batchStrides;
};

std::optional<Matrix> matrixOf(Match &match, Value operand, bool transpose) {
  std::optional<View> view = match.viewOf(operand);
  size_t rank = view ? view->dims.size() : 0;
  if (rank < 2) {
    return std::nullopt;
  }
  if (transpose) {
    std::swap(view->dims[rank - 2], view->dims[rank - 1]);
    std::swap(view->strides[rank - 2], view->strides[rank - 1]);
  }
  Matrix matrix;
  matrix.argument = view->argument;
  matrix.rows = view->dims[rank - 2];
  matrix.columns = view->dims[rank - 1];
  if (isUnit(view->strides[rank - 1])) {
    matrix.leading = isUnit(matrix.rows) ? matrix.columns : view->strides[rank - 2];
  } else if (isUnit(view->strides[rank - 2])) {
    matrix.isTransposed = true;
    matrix.leading = isUnit(matrix.columns) ? matrix.rows : view->strides[rank - 1];
  } else {
    return std::nullopt;
  }
  matrix.batch.assign(view->dims.begin(), view->dims.end() - 2);
  matrix.batchStrides.assign(view->strides.begin(), view->strides.end() - 2);
  return matrix;
}

/// Takes the dims before the matrix into its rows; false if the rows are not evenly spaced.
bool foldBatch(Matrix &matrix) {
  if (matrix.isTransposed) {
    return llvm::all_of(matrix.batch, isUnit);
  }
  AffineExpr rows = matrix.rows;
  AffineExpr leading = matrix.leading;
  for (size_t i = matrix.batch.size(); i-- > 0;) {
    if (isUnit(matrix.batch[i])) {
      continue;
    }
    if (isUnit(rows)) {
      leading = matrix.batchStrides[i];
    } else if (!tn::sameDim(matrix.batchStrides[i], tn::multiplyDims(rows, leading))) {
      return false;
    }
    rows = tn::multiplyDims(rows, matrix.batch[i]);
  }
  matrix.rows = rows;
  matrix.leading = leading;
  return static_cast<bool>(rows);
}

/// One walk over all batch dims of a product.
struct Batch {
  AffineExpr count;
  AffineExpr strides[3]; ///< of A, B and the result
};

/// The stride of dim `i`, counted from the last; null if it is neither walked nor broadcast.
AffineExpr batchStride(const Matrix &matrix, size_t i, AffineExpr size) {
  AffineExpr zero = getAffineConstantExpr(0, size.getContext());
  if (i >= matrix.batch.size()) {
    return zero;
  }
  AffineExpr dim = matrix.batch[matrix.batch.size() - 1 - i];
  if (isUnit(dim)) {
    return zero;
  }
  return tn::sameDim(dim, size) ? matrix.batchStrides[matrix.batch.size() - 1 - i] : AffineExpr();
}

std::optional<Batch> walkBatch(const Matrix &a, const Matrix &b, ArrayRef<AffineExpr> result) {
  MLIRContext *context = result.back().getContext();
  AffineExpr zero = getAffineConstantExpr(0, context);
  Batch batch{getAffineConstantExpr(1, context), {zero, zero, zero}};
  AffineExpr resultStride = tn::multiplyDims(result[result.size() - 1], result[result.size() - 2]);
  for (size_t i = 0; i + 2 < result.size(); ++i) {
    AffineExpr size = result[result.size() - 3 - i];
    AffineExpr strides[] = {batchStride(a, i, size), batchStride(b, i, size), resultStride};
    resultStride = tn::multiplyDims(resultStride, size);
    if (isUnit(size)) {
      continue;
    }
    for (auto [stride, inner] : llvm::zip_equal(strides, batch.strides)) {
      if (!stride) {
        return std::nullopt;
      }
      if (isUnit(batch.count)) {
        inner = stride;
      } else if (!tn::sameDim(stride, tn::multiplyDims(inner, batch.count))) {
        return std::nullopt;
      }
    }
    batch.count = tn::multiplyDims(batch.count, size);
  }
  return batch.count && resultStride ? std::optional(batch) : std::nullopt;
}

/// The batch of a product; dims of A go into its rows where B has none.
std::optional<Batch> batchOf(Matrix &a, const Matrix &b, ArrayRef<AffineExpr> result) {
  if (llvm::all_of(b.batch, isUnit) && foldBatch(a)) {
    AffineExpr zero = getAffineConstantExpr(0, result.back().getContext());
    return Batch{getAffineConstantExpr(1, result.back().getContext()), {zero, zero, zero}};
  }
  return walkBatch(a, b, result);
}

} // namespace

std::optional<RegionStep> matmulStep(func::FuncOp kernel, Operation *root, bool allowTf32) {
  tn::MatmulOp matmul = cast<tn::MatmulOp>(root);
  Match match(kernel);
  std::optional<DType> type = libraryType(matmul.getType());
  std::optional<Matrix> a = matrixOf(match, matmul.getA(), matmul.getTransposeA());
  std::optional<Matrix> b = matrixOf(match, matmul.getB(), matmul.getTransposeB());
  if (!type || !a || !b || !match.readEpilogue(root) || !match.isWhole()) {
    return std::nullopt;
  }
  bool hasEpilogue = match.bias || match.activation != engine::LibraryActivation::None;
  if (*type == DType::F64 && hasEpilogue) {
    return std::nullopt; // the library has none in double precision
  }
  tn::Dims result = tn::getDims(matmul.getType());
  if (!tn::sameDim(a->columns, b->rows) || !tn::sameDim(a->rows, result[result.size() - 2]) ||
      !tn::sameDim(b->columns, result.back()) || llvm::any_of(result, isZero) ||
      isZero(a->columns)) {
    return std::nullopt;
  }
  std::optional<Batch> batch = batchOf(*a, *b, result);
  if (!batch) {
    return std::nullopt;
  }
  engine::MatmulCall call;
  call.type = *type;
  call.transposeA = a->isTransposed;
  call.transposeB = b->isTransposed;
  call.hasBias = match.bias.has_value();
  call.hasResidual = match.residual.has_value();
  call.activation = match.activation;
  call.allowTf32 = allowTf32;
  call.hint = hintFor(call, a->rows, b->columns);
  RegionStep step;
  step.buffers = {a->argument, b->argument};
  for (AffineExpr size : {a->rows, b->columns, a->columns, batch->count, a->leading, b->leading,
                          b->columns, batch->strides[0], batch->strides[1], batch->strides[2]}) {
    step.sizes.push_back(programOf(size));
  }
  match.complete(step, call);
  return step;
}

namespace {

/// Covers what stands between a product of 8-bit floats and the codes of an operand.
void coverOperand(Match &match, Value operand) {
  while (Operation *op = operand.getDefiningOp()) {
    match.cover(op);
    if (tn::MulOp scaled = dyn_cast<tn::MulOp>(op)) {
      match.cover(scaled.getB().getDefiningOp());
    }
    operand = op->getOperand(0);
  }
}

/// Whether rows of 8-bit floats begin on borders that the library asks for.
bool isOnBorders(const Matrix &matrix) {
  return !matrix.isTransposed && matrix.leading.isMultipleOf(tn::kFloat8Border);
}

} // namespace

std::optional<RegionStep> scaledMatmulStep(func::FuncOp kernel, tn::MatmulOp product) {
  Match match(kernel);
  std::optional<tn::Float8Operand> left = tn::float8Operand(product.getA()),
                                   right = tn::float8Operand(product.getB());
  std::optional<DType> type = libraryType(product.getType());
  if (!type || *type == DType::F64 || !left || !right || !product.getTransposeB()) {
    return std::nullopt;
  }
  std::optional<Matrix> a = matrixOf(match, left->codes, /*transpose=*/false),
                        b = matrixOf(match, right->codes, /*transpose=*/false);
  coverOperand(match, product.getA());
  coverOperand(match, product.getB());
  if (!a || !b || !match.readEpilogue(product) || !match.isWhole() || !foldBatch(*a) ||
      !b->batch.empty() || !isOnBorders(*a) || !isOnBorders(*b) ||
      !b->rows.isMultipleOf(tn::kFloat8Border) || !b->columns.isMultipleOf(tn::kFloat8Border) ||
      (*type == DType::F32 && match.bias) || isZero(a->rows)) {
    return std::nullopt;
  }
  engine::ScaledMatmulCall call;
  call.type = *type;
  call.hasBias = match.bias.has_value();
  call.hasResidual = match.residual.has_value();
  call.activation = match.activation;
  call.factor = static_cast<float>(left->factor * right->factor);
  RegionStep step;
  step.buffers = {a->argument, b->argument};
  for (AffineExpr size : {a->rows, b->rows, b->columns, a->leading, b->leading}) {
    step.sizes.push_back(programOf(size));
  }
  match.complete(step, call);
  return step;
}

} // namespace tenon::codegen::cuda

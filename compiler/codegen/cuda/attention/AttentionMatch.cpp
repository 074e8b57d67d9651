// Follows values from the op to the region's inputs and to its result. Relies on the op's verifier
// for ranks and on dims being expressions over the region's symbols.
#include "compiler/codegen/cuda/attention/AttentionMatch.h"

#include "compiler/graph/Float8.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kGuessedBatches = 64;

/// The result's strides, in the region's output: what is returned, or `last` if given, is
/// row-major.
std::optional<StridedTensor> stridedResult(Value value, uint32_t output, Value last) {
  if (!value.hasOneUse()) {
    return std::nullopt;
  }
  Operation *user = *value.getUsers().begin();
  MLIRContext *context = user->getContext();
  if (last ? value == last : isa<func::ReturnOp>(user)) {
    Type element = getElementTypeOrSelf(value.getType());
    return StridedTensor{output, element, getAffineConstantExpr(0, context),
                         rowMajor(tn::getDims(value.getType()), context)};
  }
  tn::TransposeOp transpose = dyn_cast<tn::TransposeOp>(user);
  std::optional<StridedTensor> to =
      transpose ? stridedResult(transpose.getY(), output, last) : std::nullopt;
  if (!to) {
    return std::nullopt;
  }
  tn::Dims strides(to->strides.size());
  for (auto [i, from] : llvm::enumerate(transpose.getPermutation())) {
    strides[from] = to->strides[i];
  }
  to->strides = strides;
  return to;
}

/// A value whose codes of 8-bit floats are what the region gives, times a factor.
struct Encoded {
  Value value;
  double factor = 1;
};

std::optional<Encoded> encodedOf(func::FuncOp region) {
  Value result = region.getBody().front().getTerminator()->getOperand(0);
  tn::EncodeOp encode = result.getDefiningOp<tn::EncodeOp>();
  if (!encode || !encode.getSaturate() ||
      !isa<Float8E4M3FNType>(getElementTypeOrSelf(result.getType()))) {
    return std::nullopt;
  }
  tn::MulOp scaled = encode.getX().getDefiningOp<tn::MulOp>();
  std::optional<double> factor = scaled ? tn::splatNumber(scaled.getB()) : std::nullopt;
  return factor ? Encoded{scaled.getA(), *factor} : Encoded{encode.getX()};
}

/// [batch, head, row, column] from the stored order.
StridedTensor logical(StridedTensor tensor, bool headsInner) {
  if (headsInner) {
    std::swap(tensor.strides[1], tensor.strides[2]);
  }
  return tensor;
}

/// The mask's strides over [batch, head, query, key].
std::optional<StridedTensor> stridedMask(Value mask) {
  std::optional<StridedTensor> from = stridedInput(mask);
  if (!from) {
    return std::nullopt;
  }
  tn::Dims dims = tn::getDims(mask.getType());
  tn::Dims strides(4, getAffineConstantExpr(0, mask.getContext()));
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (tn::constantDim(dim) != 1) {
      strides[4 - dims.size() + i] = from->strides[i];
    }
  }
  from->strides = strides;
  return from;
}

} // namespace

SmallVector<uint32_t> AttentionProblem::buffers(ArrayRef<uint32_t> written) const {
  SmallVector<uint32_t> result = {q.buffer, k.buffer, v.buffer};
  if (mask) {
    result.push_back(mask->buffer);
  }
  if (start) {
    result.push_back(start->buffer);
  }
  if (sequences) {
    result.append({sequences->pages, sequences->starts, sequences->lengths});
  }
  result.append(written.begin(), written.end());
  return result;
}

MatchResult<AttentionProblem> matchAttention(func::FuncOp region, bool mayEncode) {
  auto ops = region.getOps<tn::AttentionOp>();
  if (!llvm::hasSingleElement(ops) || region.getNumResults() != 1) {
    return MatchFailure{"it is not one attention with one result"};
  }
  tn::AttentionOp op = *ops.begin();
  std::optional<Encoded> encoded = mayEncode ? encodedOf(region) : std::nullopt;
  Value last = encoded ? encoded->value : Value();
  std::optional<StridedTensor> q = stridedInput(op.getQ()), k = stridedInput(op.getK()),
                               v = stridedInput(op.getV()),
                               y = stridedResult(op.getY(), region.getNumArguments(), last);
  if (!q || !k || !v || !y) {
    return MatchFailure{"an operand or the result cannot be reached by strides"};
  }
  AttentionProblem problem;
  problem.codesFactor = encoded ? encoded->factor : 0;
  ArrayRef<bool> inner = op.getHeadsInner();
  problem.q = logical(*q, inner[0]);
  problem.k = logical(*k, inner[1]);
  problem.v = logical(*v, inner[2]);
  problem.y = logical(*y, inner[3]);
  if (op.getMask()) {
    problem.mask = stridedMask(op.getMask());
    if (!problem.mask) {
      return MatchFailure{"the mask cannot be reached by strides"};
    }
  }
  if (op.getStart()) {
    problem.start = stridedInput(op.getStart());
    if (!problem.start) {
      return MatchFailure{"the position of the first query is computed in the region"};
    }
  }
  tn::Dims qDims = tn::getDims(op.getQ().getType()), kDims = tn::getDims(op.getK().getType());
  problem.batches = qDims[0];
  problem.batchRange = tn::SymbolList(region->getParentOfType<ModuleOp>()).bounds(problem.batches);
  problem.typicalBatches =
      std::clamp(kGuessedBatches, problem.batchRange.min, problem.batchRange.max);
  problem.heads = qDims[inner[0] ? 2 : 1];
  problem.queries = qDims[inner[0] ? 1 : 2];
  problem.keyHeads = kDims[inner[1] ? 2 : 1];
  problem.keys = kDims[inner[1] ? 1 : 2];
  problem.width = qDims[3];
  problem.valueWidth = tn::getDims(op.getV().getType())[3];
  problem.scale = op.getScale().convertToDouble();
  problem.causal = op.getCausal();
  problem.window = op.getWindow();
  problem.maskedRowsAreNan = op.getMaskedRowsAreNan();
  problem.firstTemporary = region.getNumArguments() + region.getNumResults();
  return problem;
}

} // namespace tenon::codegen::cuda

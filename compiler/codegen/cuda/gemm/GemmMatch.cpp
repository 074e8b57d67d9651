// Brings both operands to strides over the result's batch. Relies on tn.matmul's verifier for
// ranks.
#include "compiler/codegen/cuda/gemm/GemmMatch.h"

#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/graph/Float8.h"
#include "compiler/graph/NarrowIntegers.h"
#include "compiler/graph/Tn.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

bool isOne(AffineExpr dim) { return tn::constantDim(dim) == 1; }

/// The operand over `batchRank` batch dims.
std::optional<GemmOperand> operandOf(Value value, bool transpose, size_t batchRank) {
  std::optional<StridedTensor> tensor = stridedInput(value);
  tn::Dims dims = tn::getDims(value.getType());
  if (!tensor || dims.size() < 2) {
    return std::nullopt;
  }
  size_t rank = dims.size();
  tn::Dims strides(batchRank + 2, getAffineConstantExpr(0, value.getContext()));
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!isOne(dims[i])) {
      strides[batchRank + 2 - rank + i] = tensor->strides[i];
    }
  }
  strides[batchRank] = tensor->strides[transpose ? rank - 1 : rank - 2];
  strides[batchRank + 1] = tensor->strides[transpose ? rank - 2 : rank - 1];
  tensor->strides = strides;
  return GemmOperand{*tensor};
}

bool isBroadcast(const GemmOperand &operand) {
  return llvm::all_of(ArrayRef(operand.at.strides).drop_back(2),
                      [](AffineExpr stride) { return tn::constantDim(stride) == 0; });
}

/// Whether the batch dims of A continue its rows evenly, so that all are rows of one matrix.
bool continuesRows(const GemmProblem &problem) {
  AffineExpr next = problem.rows * problem.a.rowStride();
  for (size_t i = problem.batch.size(); i-- > 0;) {
    if (isOne(problem.batch[i])) {
      continue;
    }
    if (!tn::sameDim(problem.a.at.strides[i], next)) {
      return false;
    }
    next = next * problem.batch[i];
  }
  return true;
}

/// Two neighbours of 8 bits along the depth are moved as one of 16. False where they do not lie so.
bool pairBytes(GemmProblem &problem) {
  size_t rank = problem.a.at.strides.size();
  std::optional<StridedTensor> a = pairedBytes(problem.a.at, rank - 1);
  std::optional<StridedTensor> b = pairedBytes(problem.b.at, rank - 2);
  if (!a || !b || !problem.depth.isMultipleOf(2)) {
    return false;
  }
  problem.a.at = *a;
  problem.b.at = *b;
  problem.depth = problem.depth.floorDiv(2);
  return true;
}

} // namespace

std::optional<StridedTensor> pairedBytes(StridedTensor tensor, size_t along) {
  if (tn::constantDim(tensor.strides[along]) != 1 || !tensor.offset.isMultipleOf(2)) {
    return std::nullopt;
  }
  for (auto [i, stride] : llvm::enumerate(tensor.strides)) {
    if (i != along && !stride.isMultipleOf(2)) {
      return std::nullopt;
    }
    stride = i == along ? stride : stride.floorDiv(2);
  }
  tensor.offset = tensor.offset.floorDiv(2);
  tensor.element = IntegerType::get(tensor.offset.getContext(), 16);
  return tensor;
}

bool isElementwiseBehind(Operation *root) {
  Block::iterator next = std::next(root->getIterator());
  tn::Dims dims = tn::getDims(root->getResult(0).getType());
  return std::all_of(next, root->getBlock()->end(), [&](Operation &behind) {
    return behind.hasTrait<OpTrait::IsTerminator>() ||
           (behind.hasTrait<tn::TnElementwise>() &&
            tn::sameDims(tn::getDims(behind.getResult(0).getType()), dims));
  });
}

MatchResult<GemmProblem> matchGemm(func::FuncOp region) {
  auto ops = region.getOps<tn::MatmulOp>();
  if (!llvm::hasSingleElement(ops) || region.getNumResults() != 1) {
    return MatchFailure{"it is not one product with one result"};
  }
  tn::MatmulOp op = *ops.begin();
  if (!isElementwiseBehind(op)) {
    return MatchFailure{"what follows is not elementwise on the whole product"};
  }
  tn::Dims result = tn::getDims(op.getY().getType());
  size_t batchRank = result.size() - 2;
  Value left = tn::narrowOperand(op, op.getA()), right = tn::narrowOperand(op, op.getB());
  GemmProblem problem;
  if (tn::isFloat8Product(op)) {
    std::optional<tn::Float8Operand> codes[] = {tn::float8Operand(left), tn::float8Operand(right)};
    if (!codes[0] || !codes[1]) {
      return MatchFailure{"an operand of a product of 8-bit floats is not of these"};
    }
    left = codes[0]->codes;
    right = codes[1]->codes;
    problem.factor = codes[0]->factor * codes[1]->factor;
  }
  std::optional<GemmOperand> a = operandOf(left, op.getTransposeA(), batchRank);
  std::optional<GemmOperand> b = operandOf(right, op.getTransposeB(), batchRank);
  if (!a || !b) {
    return MatchFailure{"an operand is computed in the region, not read from memory by strides"};
  }
  tn::Dims aDims = tn::getDims(op.getA().getType());
  problem.batch.assign(result.begin(), result.end() - 2);
  problem.rows = result[batchRank];
  problem.columns = result.back();
  problem.depth = aDims[aDims.size() - (op.getTransposeA() ? 2 : 1)];
  problem.a = *a;
  problem.b = *b;
  problem.rowDims = {problem.rows};
  if (tn::isByteProduct(op) && !pairBytes(problem)) {
    return MatchFailure{"bytes of a product do not lie side by side along the depth"};
  }
  if (isBroadcast(*b) && continuesRows(problem)) {
    problem.rowDims.assign(result.begin(), result.end() - 1);
    problem.rows = tn::elementCount(region.getContext(), problem.rowDims);
    problem.batch.clear();
    for (GemmOperand *operand : {&problem.a, &problem.b}) {
      operand->at.strides.erase(operand->at.strides.begin(),
                                operand->at.strides.begin() + batchRank);
    }
  }
  return problem;
}

std::optional<GemmTensors> productTensors(RegionBuilder &region) {
  FailureOr<func::FuncOp> function = region.linalg();
  if (failed(function)) {
    return std::nullopt;
  }
  GemmTensors tensors;
  function->walk([&](linalg::GenericOp op) {
    if (isReduction(op)) {
      tensors.sum = op.getResult(0);
    }
  });
  tensors.result = function->getBody().front().getTerminator()->getOperand(0);
  return tensors.sum ? std::optional(tensors) : std::nullopt;
}

/// B's columns as lines of a panel: [panel of the depth, column, depth in the panel], or without
/// tiles if one panel holds the whole depth.
static tn::Packing depthPanels(RankedTensorType b, bool transposeB, int64_t panel) {
  int64_t depth = transposeB ? 1 : 0;
  if (b.getDimSize(depth) == panel) {
    return {.outerDimsPerm = {1 - depth, depth}, .innerDimsPos = {}, .innerTiles = {}};
  }
  return panelsOf(depth, panel);
}

bool isPackedInPanels(tn::UnpackOp unpack, bool transposeB, int64_t panel) {
  return unpack.packing() ==
         depthPanels(cast<RankedTensorType>(unpack.getType()), transposeB, panel);
}

std::optional<dispatch::WeightLayout> layoutInDepthPanels(RegionBuilder &region, int64_t panel) {
  tn::MatmulOp op = *region.source.getOps<tn::MatmulOp>().begin();
  std::optional<unsigned> input = packableInput(op.getB());
  if (!input) {
    return std::nullopt;
  }
  RankedTensorType b = cast<RankedTensorType>(op.getB().getType());
  return dispatch::WeightLayout{.input = *input,
                                .packing = depthPanels(b, op.getTransposeB(), panel)};
}

} // namespace tenon::codegen::cuda

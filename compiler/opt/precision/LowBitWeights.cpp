// Products of floats with weights that are integers of few bits behind scales: the weights stay so
// small in the engine, as rows of blocks (graph/BlockRows.h) that the product's kernel takes apart.
// Relies on constant folding leaving tn.dequantize of such weights, and on integer-products having
// taken what it multiplies as integers.
#include "compiler/graph/ContentGenerator.h"
#include "compiler/graph/Invariance.h"
#include "compiler/graph/TnRare.h"
#include "compiler/opt/GpuProducts.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"
#include "compiler/opt/precision/LowBitRows.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kLowBitPass = "low-bit-weights";

/// Weights of all such products that take no more than this in FP32 stay in the cache of one core
/// from run to run, where reading them costs less than taking numbers apart.
constexpr int64_t kCached = 1 << 20;
constexpr int64_t kMaxElements = int64_t(1) << 31;
/// Rows up to which a product of 16-bit floats is bound by the stream of weights, not by its
/// arithmetic, which levels and GPUs have instructions for.
constexpr int64_t kFewRows = 8, kFewRowsOfGpu = 16;

/// Products that never have so few rows are multiplied faster by weights as floats.
bool mayHaveFewRows(tn::MatmulOp product, int64_t few) {
  AffineExpr rows =
      tn::elementCount(product.getContext(), ArrayRef(tn::getDims(product.getType())).drop_back());
  if (!rows) {
    return false;
  }
  tn::SymbolList::Range count = tn::SymbolList(product->getParentOfType<ModuleOp>()).bounds(rows);
  return count.min >= 1 && count.min <= few;
}

/// Of a GPU: products of 16-bit floats that may have few rows.
bool isTakenByGpu(tn::MatmulOp product) {
  Type element = product.getType().getElementType();
  RankedTensorType matrix = tensorType(product.getB());
  // Few rows read blocks in another order of sums than many do.
  bool isInvariant = tn::isInvariant(product->getParentOfType<ModuleOp>());
  if (isInvariant || !(element.isF16() || element.isBF16()) || product.getTransposeA() ||
      matrix.getRank() != 2 || !matrix.hasStaticShape() || matrix.getNumElements() == 0 ||
      matrix.getNumElements() > kMaxElements || Constants::isConstant(product.getA())) {
    return false;
  }
  return mayHaveFewRows(product, kFewRowsOfGpu);
}

/// A row of bf16 has other bits beside few rows than beside many, which rows of pages may not have.
bool hasPages(ModuleOp module) {
  return module.walk([](tn::PagedAttentionOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

bool isTaken(tn::MatmulOp product, bool areSameBeside) {
  Type element = product.getType().getElementType();
  RankedTensorType matrix = tensorType(product.getB());
  if (product.getTransposeA() || Constants::isConstant(product.getA()) || matrix.getRank() != 2 ||
      !matrix.hasStaticShape() || matrix.getNumElements() == 0 ||
      matrix.getNumElements() > kMaxElements ||
      matrix.getDimSize(product.getTransposeB() ? 0 : 1) == 1) {
    return false;
  }
  if (element.isBF16()) {
    return !areSameBeside && mayHaveFewRows(product, kFewRows);
  }
  return element.isF32() || element.isF16();
}

struct Candidate {
  tn::MatmulOp product;
  Origin origin;
};

SmallVector<Candidate> candidatesOf(ModuleOp module, bool isGpu) {
  SmallVector<Candidate> candidates;
  int64_t bytes = 0;
  bool areSameBeside = hasPages(module);
  module.walk([&](tn::MatmulOp product) {
    std::optional<Origin> origin = (isGpu ? isTakenByGpu(product) : isTaken(product, areSameBeside))
                                       ? Origin::of(product.getB())
                                       : std::optional<Origin>();
    bool isConstant = origin && Constants::isConstant(origin->source.getX()) &&
                      getElementTypeOrSelf(origin->source.getX()).getIntOrFloatBitWidth() == 8 &&
                      tensorType(origin->source.getX()).getNumElements() <= kMaxElements;
    if (isConstant) {
      candidates.push_back({product, *origin});
      bytes += tensorType(product.getB()).getNumElements() * int64_t(sizeof(float));
    }
  });
  // Of an invariant model, a rank has the kernels of all, however little of it is its own.
  return isGpu || bytes > kCached || tn::isInvariant(module) ? candidates
                                                             : SmallVector<Candidate>();
}

class Rewriter {
public:
  Rewriter(tn::WeightStore &weights, bool isGpu) : constants(weights), isGpu(isGpu) {}

  void rewrite(Candidate &candidate) {
    tn::MatmulOp product = candidate.product;
    std::optional<Rows> &rows = made[{product.getB(), product.getTransposeB() ? 1 : 0}];
    rows = rows ? rows : store(candidate);
    if (!rows) {
      return;
    }
    // Each product has its own, which goes into its kernel.
    OpBuilder builder(product);
    Type element = product.getType().getElementType();
    Value matrix = tn::DecodeRowsOp::create(
        builder, product.getLoc(),
        RankedTensorType::get({tensorType(rows->bytes).getDimSize(0), rows->layout.depth}, element),
        rows->bytes, rows->layout.bits, rows->layout.block, rows->layout.hasZeroPoints);
    product.getBMutable().assign(matrix);
    product.setTransposeB(true);
  }

private:
  struct Rows {
    tn::BlockRows layout;
    Value bytes;
  };

  std::optional<Rows> store(Candidate &candidate) {
    std::optional<LevelMatrix> read =
        LevelMatrix::of(candidate.product, candidate.origin, constants.weights);
    if (!read) {
      return std::nullopt;
    }
    std::shared_ptr<const LevelMatrix> levels = std::make_shared<LevelMatrix>(std::move(*read));
    LevelSurvey survey = surveyOf(*levels, constants.weights);
    Storing storing = storingOf(survey);
    tn::BlockRows layout{
        .bits = storing.bits, .hasZeroPoints = storing.hasZeroPoints, .depth = levels->depth};
    std::optional<int64_t> block =
        isGpu ? gpuBlockOf(*levels, survey) : blockOf(*levels, survey, layout.elementsOfWord());
    if (!block) {
      return std::nullopt;
    }
    layout.block = *block;
    StoredRows rows(levels, storing, layout);
    return Rows{layout, rowsOf(candidate, *levels, rows, rows.content(survey), layout.rowBytes())};
  }

  /// Rows of a matrix that is read in place are made when the engine is written.
  Value rowsOf(Candidate &candidate, const LevelMatrix &levels, const StoredRows &rows,
               std::string content, int64_t rowBytes) {
    tn::DequantizeOp source = candidate.origin.source;
    OpBuilder builder(source);
    tn::WeightOp weight = source.getX().getDefiningOp<tn::WeightOp>();
    RankedTensorType type = RankedTensorType::get({levels.columns, rowBytes},
                                                  builder.getIntegerType(8, /*isSigned=*/false));
    std::string name = (weight ? weight.getId() + ".rows" : llvm::Twine("rows")).str();
    int64_t size = type.getNumElements();
    if (levels.isReadInPlace() && (size > kInlineBytes || levels.isOfRank())) {
      std::string id =
          constants.weights.addDerived(name, size, tn::ContentGenerator{std::move(content), rows},
                                       levels.isOfRank(), ("pass " + kLowBitPass).str());
      return tn::WeightOp::create(builder, source.getLoc(), type, id);
    }
    std::vector<char> bytes(size);
    rows(0, size, bytes.data());
    return constants.make(builder, source.getLoc(), type, std::move(bytes), name, kLowBitPass);
  }

  Constants constants;
  bool isGpu;
  llvm::DenseMap<std::pair<Value, int>, std::optional<Rows>> made;
};

LogicalResult rewriteAll(ModuleOp module, tn::WeightStore &weights, bool isGpu) {
  SmallVector<Candidate> candidates = candidatesOf(module, isGpu);
  Rewriter rewriter(weights, isGpu);
  for (Candidate &candidate : candidates) {
    rewriter.rewrite(candidate);
  }
  // What no such product reads becomes floats.
  return foldConstants(module, weights);
}

} // namespace

LogicalResult lowBitWeights(ModuleOp module, tn::WeightStore &weights) {
  return rewriteAll(module, weights, /*isGpu=*/false);
}

LogicalResult lowBitWeightsOfGpu(ModuleOp module, tn::WeightStore &weights) {
  return rewriteAll(module, weights, /*isGpu=*/true);
}

} // namespace tenon::opt

// ONNX Runtime's fused operators of the domain com.microsoft: activations, sums before norms,
// scaled products. Relies on `tn` fusing what they are made of here.
#include "compiler/frontend/common/Activations.h"
#include "compiler/frontend/common/Recurrent.h"
#include "compiler/frontend/onnx/ops/FusedActivation.h"
#include "compiler/graph/TnRare.h"

using namespace mlir;

namespace tenon::onnx {

Value activated(NodeContext &c, Value x, std::optional<double> alpha, std::optional<double> beta) {
  std::string name = c.text("activation", "");
  if (!x || name.empty()) {
    return x;
  }
  if (name == "Clip") {
    constexpr double kMax = std::numeric_limits<float>::max();
    return c.unary<tn::ClampOp>(x, llvm::APFloat(alpha.value_or(-kMax)),
                                llvm::APFloat(beta.value_or(kMax)));
  }
  std::string lower = StringRef(name).lower();
  const tn::CellActivation *known = tn::findCellActivation(lower);
  if (!known) {
    c.gap("activation " + name + " after an operator is not supported",
          "export without the fusion");
    return Value();
  }
  Activation activation{lower, alpha.value_or(known->usualAlpha), beta.value_or(known->usualBeta)};
  return activate(c, activation, x);
}

namespace {

template <bool tanhForm> void biasGelu(NodeContext &c) {
  Value x = c.has(1) ? c.add(c.value(0), c.value(1)) : c.value(0);
  c.setOutput(0, c.unary<tn::GeluOp>(x, tanhForm));
}

void quickGelu(NodeContext &c) {
  c.setOutput(0, frontend::swish(c, c.value(0), c.real("alpha", 1.702f)));
}

/// [m, batch.., k] as [batch.., m, k].
Value batchFirst(NodeContext &c, unsigned i) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(1, c.rank(i) - 1));
  order.append({0, c.rank(i) - 1});
  return c.transpose(c.value(i), order);
}

void fusedMatMul(NodeContext &c) {
  if (c.rank(0) < 2 || c.rank(1) < 2) {
    return c.gap("one-dimensional operands are not supported", "add a dimension");
  }
  Value a = c.integer("transBatchA", 0) != 0 ? batchFirst(c, 0) : c.value(0);
  Value b = c.integer("transBatchB", 0) != 0 ? batchFirst(c, 1) : c.value(1);
  Value y = c.make<tn::MatmulOp>(a, b, c.integer("transA", 0) != 0, c.integer("transB", 0) != 0);
  double alpha = c.real("alpha", 1);
  c.setOutput(0, alpha == 1 ? y : c.mul(y, c.scalarLike(alpha, y)));
}

Value lastLayerNorm(NodeContext &c, Value x, unsigned scale, unsigned bias) {
  int64_t rank = x ? cast<RankedTensorType>(x.getType()).getRank() : 1;
  return c.make<tn::LayerNormOp>(x, c.value(scale), c.value(bias), rank - 1,
                                 llvm::APFloat(c.real("epsilon", 1e-12f)));
}

/// The norm of the sum of an input, what skipped a layer, and a bias; the sum is output 3.
Value skippedSum(NodeContext &c, unsigned bias) {
  Value sum = c.add(c.value(0), c.value(1));
  sum = c.has(bias) ? c.add(sum, c.value(bias)) : sum;
  c.setOutput(3, sum);
  return sum;
}

void skipLayerNorm(NodeContext &c) { c.setOutput(0, lastLayerNorm(c, skippedSum(c, 4), 2, 3)); }

void skipRmsNorm(NodeContext &c) {
  Value sum = skippedSum(c, 3);
  c.setOutput(0, c.make<tn::RmsNormOp>(sum, c.value(2), c.rank(0) - 1,
                                       llvm::APFloat(c.real("epsilon", 1e-12f))));
}

void embedLayerNorm(NodeContext &c) {
  if (c.rank(0) != 2 || c.rank(3) != 2) {
    return c.error(ErrorId::OnnxBadNode, "its ids or position embeddings are not a matrix");
  }
  c.ignore("mask_index_type"); // says no more than whether output 1 is wanted
  Type count = c.builder().getI32Type();
  c.setOutput(1, c.has(7) ? c.reduce(tn::ReduceKind::sum, c.value(7), {1}, false)
                          : c.broadcast(c.scalar(0, count), c.dims(0)[0]));
  Value sum = c.make<tn::GatherOp>(c.value(2), c.fromStart(c.value(0)), int64_t{0});
  AffineExpr length = c.dims(0)[1];
  sum = c.add(sum, c.has(8) ? c.make<tn::GatherOp>(c.value(3), c.fromStart(c.value(8)), int64_t{0})
                            : c.sliceAxis(c.value(3), 0, c.constantSize(0), length));
  if (c.has(1) && c.has(4)) {
    sum = c.add(sum, c.make<tn::GatherOp>(c.value(4), c.fromStart(c.value(1)), int64_t{0}));
  }
  c.setOutput(2, sum);
  c.setOutput(0, lastLayerNorm(c, sum, 5, 6));
}

constexpr Attributes kEpsilon = {{"epsilon", kFloat}};
constexpr Attributes kEmbed = {{"epsilon", kFloat}, {"mask_index_type", kInt}};
constexpr Attributes kFusedMatMul = {{"alpha", kFloat},
                                     {"transA", kInt},
                                     {"transB", kInt},
                                     {"transBatchA", kInt},
                                     {"transBatchB", kInt}};
constexpr Attributes kTransposeMatMul = {{"alpha", kFloat}, {"transA", kInt}, {"transB", kInt}};

constexpr OpRow kMicrosoftFusionOpRows[] = {
    {"BiasGelu", 1, 2, 2, 1, biasGelu<false>, {}, kMicrosoft},
    {"EmbedLayerNormalization", 1, 7, 9, 3, embedLayerNorm, kEmbed, kMicrosoft, 1 << 1 | 1 << 4},
    {"FastGelu", 1, 1, 2, 1, biasGelu<true>, {}, kMicrosoft},
    {"FusedMatMul", 1, 2, 2, 1, fusedMatMul, kFusedMatMul, kMicrosoft},
    {"Gelu", 1, 1, 1, 1, biasGelu<false>, {}, kMicrosoft},
    {"QuickGelu", 1, 1, 1, 1, quickGelu, {{"alpha", kFloat}}, kMicrosoft},
    {"SkipLayerNormalization", 1, 3, 5, 4, skipLayerNorm, kEpsilon, kMicrosoft},
    {"SkipSimplifiedLayerNormalization", 1, 3, 4, 4, skipRmsNorm, kEpsilon, kMicrosoft},
    {"TransposeMatMul", 1, 2, 2, 1, fusedMatMul, kTransposeMatMul, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> microsoftFusionRows() { return kMicrosoftFusionOpRows; }

} // namespace tenon::onnx

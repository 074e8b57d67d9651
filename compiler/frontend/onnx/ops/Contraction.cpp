// MatMul, Gemm and Einsum.
// Relies on common/Contraction.h for operands of any rank.
#include "compiler/frontend/common/Contraction.h"
#include "compiler/frontend/onnx/ops/FusedActivation.h"
#include "compiler/frontend/onnx/ops/Quantizing.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

void matmul(NodeContext &c) { c.setOutput(0, matrixProduct(c, c.value(0), c.value(1))); }

void matmulInteger(NodeContext &c) {
  // A per-row zero point of A belongs to the last but one dim; one of B to the last.
  checkQuantization(c, {{0, -1, 2}, {1, -1, 3}});
  Value a = centered(c, c.value(0), c.value(2), c.rank(0) - 2);
  Value b = centered(c, c.value(1), c.value(3), c.rank(1) - 1);
  c.setOutput(0, matrixProduct(c, a, b));
}

/// Whether C of Gemm has the product's dims or ones in their place: what broadcasts the product is
/// an error, or where a run decides it a constraint.
bool isBroadcastTo(NodeContext &c, ArrayRef<AffineExpr> bias, ArrayRef<AffineExpr> product) {
  if (bias.size() > product.size()) {
    c.error(ErrorId::OnnxBadNode, "input C has more dimensions than the product");
    return false;
  }
  ArrayRef<AffineExpr> last = product.take_back(bias.size());
  return llvm::all_of(llvm::zip_equal(bias, last), [&](auto pair) {
    auto [own, other] = pair;
    std::optional<int64_t> size = tn::constantDim(own);
    bool mayGrow = size ? *size != 1 : tn::constantDim(other) == 1;
    return !mayGrow || c.require(tn::ConstraintKind::equal, own, other,
                                 "a dimension of input C, which broadcasts to the product,");
  });
}

Value emitGemm(NodeContext &c) {
  if (c.rank(0) != 2 || c.rank(1) != 2) {
    c.error(ErrorId::OnnxBadNode, "its first two inputs are not matrices");
    return Value();
  }
  Value product = c.make<tn::MatmulOp>(c.value(0), c.value(1), c.integer("transA", 0) != 0,
                                       c.integer("transB", 0) != 0);
  c.ignore("broadcast"); // a bias that needs none has the product's dims
  c.ignoreInput(2);      // beta may be 0
  double alpha = c.real("alpha", 1);
  double beta = c.real("beta", 1);
  if (alpha != 1) {
    product = c.mul(product, c.scalarLike(alpha, product));
  }
  if (c.has(2) && beta != 0) {
    Value bias = c.value(2);
    if (product && !isBroadcastTo(c, c.dims(2), tn::getDims(product.getType()))) {
      return Value();
    }
    product = c.add(product, beta == 1 ? bias : c.mul(bias, c.scalarLike(beta, bias)));
  }
  return product;
}

void gemm(NodeContext &c) { c.setOutput(0, emitGemm(c)); }

void fusedGemm(NodeContext &c) {
  auto parameter = [&](StringRef name) {
    return c.hasAttribute(name) ? std::optional(c.real(name, 0)) : std::nullopt;
  };
  std::optional<double> alpha = parameter("activation_alpha"), beta = parameter("activation_beta");
  c.setOutput(0, activated(c, emitGemm(c), alpha, beta));
}

void einsum(NodeContext &c) {
  SmallVector<Value> operands;
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    operands.push_back(c.value(i));
  }
  c.setOutput(0, frontend::einsum(c, c.text("equation", ""), operands, ErrorId::OnnxBadAttribute));
}

constexpr Attributes kGemm = {{"alpha", kFloat},
                              {"beta", kFloat},
                              {"broadcast", kInt, 1, 6},
                              {"transA", kInt},
                              {"transB", kInt}};
constexpr Attributes kGemm11 = {
    {"alpha", kFloat}, {"beta", kFloat}, {"transA", kInt}, {"transB", kInt}};
constexpr Attributes kFusedGemm = {{"activation", kString},
                                   {"activation_alpha", kFloat},
                                   {"activation_beta", kFloat},
                                   {"activation_gamma", kFloat},
                                   {"alpha", kFloat},
                                   {"beta", kFloat},
                                   {"transA", kInt},
                                   {"transB", kInt}};

constexpr OpRow kContractionOpRows[] = {
    {"Einsum", 12, 1, kMany, 1, einsum, {needs({"equation", kString})}},
    {"FusedGemm", 1, 2, 3, 1, fusedGemm, kFusedGemm, kMicrosoft},
    {"Gemm", 1, 3, 3, 1, gemm, kGemm},
    {"Gemm", 11, 2, 3, 1, gemm, kGemm11},
    {"MatMul", 1, 2, 2, 1, matmul},
    {"MatMulInteger", 10, 2, 4, 1, matmulInteger},
};

} // namespace

ArrayRef<OpRow> contractionRows() { return kContractionOpRows; }

} // namespace tenon::onnx

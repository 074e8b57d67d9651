// MatMul, Gemm and Einsum: reshapes and transposes around `tn.matmul`.
// Relies on matmul operands having rank 2 or more there; 1-D ones are reshaped here.
#include "compiler/frontend/onnx/ops/FusedActivation.h"
#include "compiler/frontend/onnx/ops/Quantizing.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// numpy's matmul: a 1-D operand gets a dim of 1 that the result loses again.
Value matmulAnyRank(NodeContext &c, Value a, Value b) {
  if (!a || !b) {
    return Value();
  }
  tn::Dims left = tn::getDims(a.getType());
  tn::Dims right = tn::getDims(b.getType());
  if (left.empty() || right.empty()) {
    c.error(ErrorId::OnnxBadNode, "an operand is a scalar");
    return Value();
  }
  AffineExpr one = c.constantSize(1);
  bool row = left.size() == 1;
  bool column = right.size() == 1;
  if (row) {
    a = c.reshape(a, {one, left[0]});
  }
  if (column) {
    b = c.reshape(b, {right[0], one});
  }
  Value product = c.make<tn::MatmulOp>(a, b, false, false);
  if (!product || (!row && !column)) {
    return product;
  }
  tn::Dims dims = tn::getDims(product.getType());
  if (column) {
    dims.pop_back();
  }
  if (row) {
    dims.erase(dims.end() - (column ? 1 : 2));
  }
  return c.reshape(product, dims);
}

void matmul(NodeContext &c) { c.setOutput(0, matmulAnyRank(c, c.value(0), c.value(1))); }

void matmulInteger(NodeContext &c) {
  // A per-row zero point of A belongs to the last but one dim; one of B to the last.
  Value a = centered(c, c.value(0), c.value(2), c.rank(0) - 2);
  Value b = centered(c, c.value(1), c.value(3), c.rank(1) - 1);
  c.setOutput(0, matmulAnyRank(c, a, b));
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

//===--- Einsum ---===//

/// A value with one label a dim; labels above 'z' stand for the dims of an ellipsis.
struct Labelled {
  Value value;
  std::string labels;
};

constexpr char kEllipsis = static_cast<char>(0x80);

/// Replaces "..." by one label for each of the `count` dims that it stands for.
bool expandLabels(StringRef term, size_t count, std::string &out) {
  for (size_t i = 0; i < term.size(); ++i) {
    if (isalpha(static_cast<unsigned char>(term[i]))) {
      out += term[i];
    } else if (term.substr(i).starts_with("...") && count <= 32) {
      for (size_t k = 0; k < count; ++k) {
        out += static_cast<char>(kEllipsis + (32 - count) + k);
      }
      i += 2;
    } else if (term[i] != ' ') {
      return false;
    }
  }
  return true;
}

AffineExpr dimOf(const Labelled &x, char label) {
  return tn::getDims(x.value.getType())[x.labels.find(label)];
}

/// Keeps the diagonal of a label that occurs twice.
void takeDiagonals(NodeContext &c, Labelled &x) {
  for (size_t i = 0; x.value && i < x.labels.size(); ++i) {
    size_t j = x.labels.find(x.labels[i], i + 1);
    if (j == std::string::npos) {
      continue;
    }
    int64_t rank = x.labels.size();
    tn::Dims dims = tn::getDims(x.value.getType());
    Type index = c.builder().getI64Type();
    Value count = c.makeTyped<tn::IotaOp>(tn::makeTensor({dims[i]}, index), c.scalar(0, index),
                                          c.scalar(1, index));
    Value same =
        c.compare(c.alongAxis(count, i, rank), tn::Predicate::eq, c.alongAxis(count, j, rank));
    x.value = c.reduce(tn::ReduceKind::sum, c.select(same, x.value, c.scalarLike(0, x.value)),
                       {static_cast<int64_t>(j)}, false);
    x.labels.erase(j, 1);
    --i;
  }
}

/// Sums over the labels that neither `other` nor the result has.
void sumAlone(NodeContext &c, Labelled &x, StringRef other) {
  SmallVector<int64_t> axes;
  std::string kept;
  for (auto [i, label] : llvm::enumerate(x.labels)) {
    if (other.contains(label)) {
      kept += label;
    } else {
      axes.push_back(i);
    }
  }
  if (!axes.empty()) {
    x.value = c.reduce(tn::ReduceKind::sum, x.value, axes, false);
    x.labels = kept;
  }
}

void permuteTo(NodeContext &c, Labelled &x, StringRef order) {
  SmallVector<int64_t> permutation;
  for (char label : order) {
    permutation.push_back(x.labels.find(label));
  }
  x.value = x.value ? c.transpose(x.value, permutation) : Value();
  x.labels = order.str();
}

AffineExpr productOf(NodeContext &c, const Labelled &x, StringRef labels) {
  AffineExpr product = c.constantSize(1);
  for (char label : labels) {
    product = multiplySizes(product, dimOf(x, label));
  }
  return product;
}

/// One product of two operands; `needed` are the labels that later operands or the result use.
Labelled contract(NodeContext &c, Labelled a, Labelled b, const std::string &needed) {
  sumAlone(c, a, b.labels + needed);
  sumAlone(c, b, a.labels + needed);
  std::string batch, sum, left, right;
  for (char label : a.labels) {
    bool shared = b.labels.find(label) != std::string::npos;
    bool keep = needed.find(label) != std::string::npos;
    (shared ? keep ? batch : sum : left) += label;
  }
  for (char label : b.labels) {
    right += a.labels.find(label) == std::string::npos ? std::string(1, label) : "";
  }
  permuteTo(c, a, batch + left + sum);
  permuteTo(c, b, batch + sum + right);
  if (!a.value || !b.value || c.failed()) {
    return {};
  }
  AffineExpr g = productOf(c, a, batch), m = productOf(c, a, left), k = productOf(c, a, sum),
             n = productOf(c, b, right);
  if (!g || !m || !k || !n) {
    c.gap("the merged sizes of its dimensions cannot be written as expressions",
          "declare the input shapes with --shape");
    return {};
  }
  Value product = c.make<tn::MatmulOp>(c.reshape(a.value, {g, m, k}), c.reshape(b.value, {g, k, n}),
                                       false, false);
  tn::Dims dims;
  for (char label : batch + left) {
    dims.push_back(dimOf(a, label));
  }
  for (char label : right) {
    dims.push_back(dimOf(b, label));
  }
  return {c.reshape(product, dims), batch + left + right};
}

/// Labels of operands and result from the equation; false if it is not valid.
bool parseEquation(NodeContext &c, SmallVectorImpl<Labelled> &operands, std::string &result) {
  std::string equation = c.text("equation", "");
  auto [inputs, output] = StringRef(equation).split("->");
  bool stated = StringRef(equation).contains("->");
  SmallVector<StringRef> terms;
  inputs.split(terms, ',');
  if (terms.size() != c.numInputs()) {
    return false;
  }
  size_t widest = 0;
  std::string once;
  for (auto [i, term] : llvm::enumerate(terms)) {
    size_t letters =
        llvm::count_if(term, [](char ch) { return isalpha(static_cast<unsigned char>(ch)); });
    size_t rank = c.rank(i);
    bool ellipsis = term.contains("...");
    if (letters > rank || (!ellipsis && letters != rank)) {
      return false;
    }
    widest = ellipsis ? std::max(widest, rank - letters) : widest;
    Labelled operand{c.value(i), ""};
    if (!expandLabels(term, rank - letters, operand.labels)) {
      return false;
    }
    operands.push_back(operand);
    once += operand.labels;
  }
  if (!stated) {
    std::string implicit;
    for (int label = 1; label < 256; ++label) {
      char ch = static_cast<char>(label);
      bool ellipsis = label >= 0x80;
      if (llvm::count(once, ch) == 1 || (ellipsis && once.find(ch) != std::string::npos)) {
        implicit.insert(ellipsis ? llvm::count_if(implicit, [](char x) { return x < 0; })
                                 : implicit.size(),
                        1, ch);
      }
    }
    result = implicit;
    return true;
  }
  return expandLabels(output, widest, result);
}

void einsum(NodeContext &c) {
  SmallVector<Labelled> operands;
  std::string result;
  if (!parseEquation(c, operands, result)) {
    return c.error(ErrorId::OnnxBadAttribute, "attribute 'equation' does not fit the inputs");
  }
  for (Labelled &operand : operands) {
    takeDiagonals(c, operand);
  }
  Labelled total = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string needed = result;
    for (size_t k = i + 1; k < operands.size(); ++k) {
      needed += operands[k].labels;
    }
    total = contract(c, total, operands[i], needed);
    if (c.failed() || !total.value) {
      return;
    }
  }
  sumAlone(c, total, result);
  bool complete = llvm::all_of(
      result, [&](char label) { return total.labels.find(label) != std::string::npos; });
  if (!complete || result.size() != total.labels.size()) {
    return c.error(ErrorId::OnnxBadAttribute,
                   "attribute 'equation' has a result label that no input has");
  }
  permuteTo(c, total, result);
  c.setOutput(0, total.value);
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

constexpr OpRow kRows[] = {
    {"Einsum", 12, 1, kMany, 1, einsum, {needs({"equation", kString})}},
    {"FusedGemm", 1, 2, 3, 1, fusedGemm, kFusedGemm, kMicrosoft},
    {"Gemm", 1, 3, 3, 1, gemm, kGemm},
    {"Gemm", 11, 2, 3, 1, gemm, kGemm11},
    {"MatMul", 1, 2, 2, 1, matmul},
    {"MatMulInteger", 10, 2, 4, 1, matmulInteger},
};

} // namespace

ArrayRef<OpRow> contractionRows() { return kRows; }

} // namespace tenon::onnx

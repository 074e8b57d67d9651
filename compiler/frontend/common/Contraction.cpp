// Transposes and reshapes around `tn.matmul`.
// Relies on dims that are in both operands staying apart, so that the product proves or demands
// that they are equal.
#include "compiler/frontend/common/Contraction.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;

namespace tenon::frontend {

Value matrixProduct(Emitter &c, Value a, Value b) {
  if (!a || !b) {
    return Value();
  }
  tn::Dims left = tn::getDims(a.getType()), right = tn::getDims(b.getType());
  if (left.empty() || right.empty()) {
    c.error(ErrorId::OnnxBadNode, "an operand is a scalar");
    return Value();
  }
  AffineExpr one = c.constantSize(1);
  bool isRow = left.size() == 1, isColumn = right.size() == 1;
  if (isRow) {
    a = c.reshape(a, {one, left[0]});
  }
  if (isColumn) {
    b = c.reshape(b, {right[0], one});
  }
  Value product = c.make<tn::MatmulOp>(a, b, false, false);
  if (!product || (!isRow && !isColumn)) {
    return product;
  }
  tn::Dims dims = tn::getDims(product.getType());
  if (isColumn) {
    dims.pop_back();
  }
  if (isRow) {
    dims.erase(dims.end() - (isColumn ? 1 : 2));
  }
  return c.reshape(product, dims);
}

namespace {

/// A value with one label a dim: a letter, or from `kEllipsis` on one of the dims of an ellipsis.
struct Labelled {
  Value value;
  std::string labels;
};

constexpr unsigned kEllipsis = 0x80;
/// The last dim of every ellipsis has the last label: they meet there, as numpy's broadcast does.
constexpr size_t kMaxOfEllipsis = 64;

bool isLetter(char label) { return llvm::isAlpha(label); }

/// The labels of a term, whose ellipsis stands for `count` dims; none if it is not well formed.
std::optional<std::string> labelsOf(StringRef term, size_t count) {
  std::string labels;
  bool hasEllipsis = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (isLetter(term[i])) {
      labels += term[i];
    } else if (term.substr(i).starts_with("...") && !hasEllipsis && count <= kMaxOfEllipsis) {
      for (size_t k = kMaxOfEllipsis - count; k < kMaxOfEllipsis; ++k) {
        labels += static_cast<char>(kEllipsis + k);
      }
      hasEllipsis = true;
      i += 2;
    } else if (term[i] != ' ') {
      return std::nullopt;
    }
  }
  return labels;
}

/// The result of an equation that states none: the dims of the ellipsis, then the letters that are
/// there once, in their order.
std::string impliedResult(StringRef all) {
  std::string ellipsis, letters;
  for (unsigned code = 0; code < 256; ++code) {
    char label = static_cast<char>(code);
    if (code >= kEllipsis && all.contains(label)) {
      ellipsis += label;
    } else if (llvm::count(all, label) == 1) {
      letters += label;
    }
  }
  return ellipsis + letters;
}

struct Equation {
  SmallVector<Labelled> operands;
  std::string result;
};

std::optional<Equation> parse(StringRef text, ArrayRef<Value> operands) {
  auto [left, right] = text.split("->");
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  if (terms.size() != operands.size()) {
    return std::nullopt;
  }
  Equation equation;
  size_t widest = 0;
  std::string all;
  for (auto [term, value] : llvm::zip_equal(terms, operands)) {
    size_t rank = tn::getDims(value.getType()).size();
    size_t letters = llvm::count_if(term, isLetter);
    if (letters > rank) {
      return std::nullopt;
    }
    std::optional<std::string> labels = labelsOf(term, rank - letters);
    if (!labels || labels->size() != rank) {
      return std::nullopt;
    }
    widest = std::max(widest, rank - letters);
    all += *labels;
    equation.operands.push_back({value, *labels});
  }
  std::optional<std::string> stated = labelsOf(right, widest);
  if (!stated) {
    return std::nullopt;
  }
  equation.result = text.contains("->") ? *stated : impliedResult(all);
  bool isSound = llvm::all_of(equation.result, [&](char label) {
    return StringRef(all).contains(label) && llvm::count(equation.result, label) == 1;
  });
  return isSound ? std::optional(equation) : std::nullopt;
}

/// Keeps the diagonal of the dims of a label that is there twice: the first of them.
void takeDiagonals(Emitter &c, Labelled &x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    for (size_t j = x.labels.find(x.labels[i], i + 1); j != std::string::npos;
         j = x.labels.find(x.labels[i], i + 1)) {
      tn::Dims dims = x.value ? tn::getDims(x.value.getType()) : tn::Dims();
      if (!x.value || !c.require(tn::ConstraintKind::equal, dims[i], dims[j],
                                 "the dimensions of a letter that occurs twice in an operand")) {
        x.value = Value();
        return;
      }
      int64_t rank = static_cast<int64_t>(x.labels.size());
      Value at = c.positions(tn::getDims(x.value.getType())[i]);
      Value isSame = c.compare(c.alongAxis(at, static_cast<int64_t>(i), rank), tn::Predicate::eq,
                               c.alongAxis(at, static_cast<int64_t>(j), rank));
      x.value = c.reduce(tn::ReduceKind::sum, c.select(isSame, x.value, c.scalarLike(0, x.value)),
                         {static_cast<int64_t>(j)}, false);
      x.labels.erase(j, 1);
    }
  }
}

/// Sums over the labels that are not needed.
void sumAlone(Emitter &c, Labelled &x, StringRef needed) {
  SmallVector<int64_t> axes;
  std::string kept;
  for (auto [i, label] : llvm::enumerate(x.labels)) {
    if (needed.contains(label)) {
      kept += label;
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (!axes.empty()) {
    x.value = c.reduce(tn::ReduceKind::sum, x.value, axes, false);
    x.labels = kept;
  }
}

Value permuted(Emitter &c, const Labelled &x, StringRef order) {
  SmallVector<int64_t> permutation;
  for (char label : order) {
    permutation.push_back(static_cast<int64_t>(x.labels.find(label)));
  }
  return x.value ? c.transpose(x.value, permutation) : Value();
}

/// The sizes of labels in two operands: where one has 1, that of the other.
class LabelSizes {
public:
  LabelSizes(const Labelled &a, const Labelled &b) {
    for (const Labelled *x : {&a, &b}) {
      for (auto [label, dim] : llvm::zip_equal(x->labels, tn::getDims(x->value.getType()))) {
        AffineExpr &size = sizes[label];
        size = !size || tn::constantDim(size) == 1 ? dim : size;
      }
    }
  }

  tn::Dims of(StringRef labels) const {
    tn::Dims dims;
    for (char label : labels) {
      dims.push_back(sizes.at(label));
    }
    return dims;
  }

private:
  std::map<char, AffineExpr> sizes;
};

AffineExpr productOf(Emitter &c, ArrayRef<AffineExpr> dims) {
  AffineExpr product = c.constantSize(1);
  for (AffineExpr dim : dims) {
    product = multiplySizes(product, dim);
  }
  return product;
}

/// x with the dims of `batch`, then those of rows and of columns as one each. Only dims of 1
/// spread.
Value asMatrices(Emitter &c, const Labelled &x, const LabelSizes &sizes, const std::string &batch,
                 const std::string &rows, const std::string &columns) {
  std::string order = batch + rows + columns;
  Value matrices = permuted(c, x, order);
  if (!matrices) {
    return Value();
  }
  tn::Dims dims = tn::getDims(matrices.getType());
  for (auto [dim, size] : llvm::zip_equal(dims, sizes.of(order))) {
    dim = tn::constantDim(dim) == 1 ? size : dim;
  }
  matrices = c.broadcast(matrices, dims);
  ArrayRef<AffineExpr> own = dims;
  tn::Dims merged(own.take_front(batch.size()));
  merged.push_back(productOf(c, own.slice(batch.size(), rows.size())));
  merged.push_back(productOf(c, own.take_back(columns.size())));
  if (llvm::is_contained(merged, AffineExpr())) {
    c.gap("the merged sizes of its dimensions cannot be written as expressions",
          "declare the input shapes with --shape");
    return Value();
  }
  return c.reshape(matrices, merged);
}

/// One product of two operands; `needed` are the labels that later operands or the result have.
Labelled contract(Emitter &c, Labelled a, Labelled b, const std::string &needed) {
  sumAlone(c, a, b.labels + needed);
  sumAlone(c, b, a.labels + needed);
  if (!a.value || !b.value) {
    return {};
  }
  std::string batch, sum, left, right;
  for (char label : a.labels) {
    bool isShared = StringRef(b.labels).contains(label);
    (!isShared ? left : StringRef(needed).contains(label) ? batch : sum) += label;
  }
  for (char label : b.labels) {
    if (!StringRef(a.labels).contains(label)) {
      right += label;
    }
  }
  LabelSizes sizes(a, b);
  Value rows = asMatrices(c, a, sizes, batch, left, sum);
  Value columns = asMatrices(c, b, sizes, batch, sum, right);
  Value product = c.make<tn::MatmulOp>(rows, columns, false, false);
  std::string labels = batch + left + right;
  return {c.reshape(product, sizes.of(labels)), labels};
}

} // namespace

Value einsum(Emitter &c, StringRef text, ArrayRef<Value> operands, ErrorId malformed) {
  if (c.failed() || llvm::is_contained(operands, Value())) {
    return Value();
  }
  std::optional<Equation> equation = parse(text, operands);
  if (!equation) {
    c.error(malformed, "its equation does not fit its operands");
    return Value();
  }
  for (Labelled &operand : equation->operands) {
    takeDiagonals(c, operand);
  }
  Labelled total = equation->operands[0];
  for (size_t i = 1; i < operands.size() && total.value; ++i) {
    std::string needed = equation->result;
    for (const Labelled &later : ArrayRef(equation->operands).drop_front(i + 1)) {
      needed += later.labels;
    }
    total = contract(c, total, equation->operands[i], needed);
  }
  if (!total.value) {
    return Value();
  }
  sumAlone(c, total, equation->result);
  return permuted(c, total, equation->result);
}

} // namespace tenon::frontend

// Matrix products and einsum.
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

int64_t rankOf(mlir::Value x) { return cast<RankedTensorType>(x.getType()).getRank(); }

/// numpy's product: 1-D operands get a dim of 1, which the result does not have.
mlir::Value product(Call &c, mlir::Value a, mlir::Value b) {
  if (!a || !b) {
    return mlir::Value();
  }
  bool isRow = rankOf(a) == 1, isColumn = rankOf(b) == 1;
  tn::Dims left = tn::getDims(a.getType()), right = tn::getDims(b.getType());
  if (isRow) {
    a = c.reshape(a, {c.constantSize(1), left[0]});
  }
  if (isColumn) {
    b = c.reshape(b, {right[0], c.constantSize(1)});
  }
  mlir::Value y = c.make<tn::MatmulOp>(a, b, false, false);
  if (!y || (!isRow && !isColumn)) {
    return y;
  }
  tn::Dims dims = tn::getDims(y.getType());
  if (isColumn) {
    dims.pop_back();
  }
  if (isRow) {
    dims.erase(dims.end() - (isColumn ? 1 : 2));
  }
  return c.reshape(y, dims);
}

void matmul(Call &c) {
  c.setOutput(product(c, c.value("self"), c.value(c.has("other") ? "other" : "mat2")));
}
void dot(Call &c) {
  c.setOutput(product(c, c.value("self"), c.value(c.has("tensor") ? "tensor" : "vec")));
}

void linear(Call &c) {
  mlir::Value x = c.value("input"), weight = c.value("weight"), bias = c.value("bias");
  if (!x || !weight) {
    return;
  }
  if (rankOf(weight) == 1) {
    mlir::Value y = product(c, x, weight);
    return c.setOutput(bias ? c.add(y, bias) : y);
  }
  bool isVector = rankOf(x) == 1;
  if (isVector) {
    x = c.reshape(x, {c.constantSize(1), tn::getDims(x.getType())[0]});
  }
  mlir::Value y = c.make<tn::MatmulOp>(x, weight, false, /*transposeB=*/true);
  y = bias ? c.add(y, bias) : y;
  c.setOutput(isVector && y ? c.reshape(y, {tn::getDims(y.getType())[1]}) : y);
}

/// beta * self + alpha * a b
void addProduct(Call &c, mlir::Value y) {
  Type element = c.resultElement();
  auto scaled = [&](mlir::Value x, StringRef factor) {
    return c.has(factor) && c.real(factor, 1) != 1 ? c.mul(x, c.operand(factor, element)) : x;
  };
  y = scaled(y, "alpha");
  c.setOutput(c.has("beta") && c.real("beta", 1) == 0 ? y
                                                      : c.add(scaled(c.value("self"), "beta"), y));
  c.ignore({"self"});
}
void addmm(Call &c) { addProduct(c, product(c, c.value("mat1"), c.value("mat2"))); }
void baddbmm(Call &c) { addProduct(c, product(c, c.value("batch1"), c.value("batch2"))); }
void addmv(Call &c) { addProduct(c, product(c, c.value("mat"), c.value("vec"))); }

void outer(Call &c) {
  mlir::Value a = c.value("self"), b = c.value("vec2");
  if (a && b) {
    c.setOutput(c.mul(c.alongAxis(a, 0, 2), b));
  }
}

//===--- einsum ---===//

/// An operand of einsum: a tensor and a letter for each of its dims.
struct Term {
  mlir::Value value;
  std::string letters;
};

/// x with these letters, in their order: dims that it lacks have size 1.
mlir::Value arranged(Call &c, const Term &term, StringRef letters) {
  SmallVector<int64_t> permutation;
  tn::Dims dims, own = tn::getDims(term.value.getType());
  for (char letter : letters) {
    size_t at = term.letters.find(letter);
    if (at != std::string::npos) {
      permutation.push_back(static_cast<int64_t>(at));
    }
    dims.push_back(at == std::string::npos ? c.constantSize(1) : own[at]);
  }
  return c.reshape(c.transpose(term.value, permutation), dims);
}

/// Sums away letters that neither the result nor the other operand has.
Term summed(Call &c, Term term, StringRef kept) {
  SmallVector<int64_t> axes;
  std::string rest;
  for (auto [i, letter] : llvm::enumerate(term.letters)) {
    kept.contains(letter) ? (void)rest.push_back(letter) : axes.push_back(static_cast<int64_t>(i));
  }
  if (!axes.empty()) {
    term.value = c.reduce(tn::ReduceKind::sum, term.value, axes, false);
  }
  return {term.value, rest};
}

AffineExpr productOf(ArrayRef<AffineExpr> dims, Call &c) {
  AffineExpr product = c.constantSize(1);
  for (AffineExpr dim : dims) {
    product = frontend::multiplySizes(product, dim);
  }
  return product;
}

/// One product of matrices: batch letters are in both and kept, k letters in both and not kept.
Term contract(Call &c, Term a, Term b, StringRef kept) {
  a = summed(c, a, b.letters + kept.str());
  b = summed(c, b, a.letters + kept.str());
  if (!a.value || !b.value) {
    return {};
  }
  std::string batch, m, n, k;
  std::map<char, AffineExpr> sizes;
  for (const Term *term : {&a, &b}) {
    tn::Dims dims = tn::getDims(term->value.getType());
    for (auto [i, letter] : llvm::enumerate(term->letters)) {
      AffineExpr &size = sizes[letter];
      size = !size || tn::constantDim(size) == 1 ? dims[i] : size;
    }
  }
  for (char letter : a.letters) {
    bool isShared = b.letters.find(letter) != std::string::npos;
    (!isShared ? m : kept.contains(letter) ? batch : k).push_back(letter);
  }
  for (char letter : b.letters) {
    if (a.letters.find(letter) == std::string::npos) {
      n.push_back(letter);
    }
  }
  auto sizesOf = [&](StringRef letters) {
    tn::Dims dims;
    for (char letter : letters) {
      dims.push_back(sizes[letter]);
    }
    return dims;
  };
  auto matrix = [&](const Term &term, const std::string &rows, const std::string &columns) {
    mlir::Value x = arranged(c, term, batch + rows + columns);
    // Only dims of 1 spread: that the others are equal is for the product to prove or to demand.
    tn::Dims target = x ? tn::getDims(x.getType()) : tn::Dims();
    for (auto [dim, size] : llvm::zip(target, sizesOf(batch + rows + columns))) {
      dim = tn::constantDim(dim) == 1 ? size : dim;
    }
    x = x ? c.broadcast(x, target) : x;
    ArrayRef<AffineExpr> own = target;
    tn::Dims dims(own.take_front(batch.size()));
    dims.push_back(productOf(own.slice(batch.size(), rows.size()), c));
    dims.push_back(productOf(own.take_back(columns.size()), c));
    return llvm::is_contained(dims, AffineExpr()) ? mlir::Value() : c.reshape(x, dims);
  };
  mlir::Value y = c.make<tn::MatmulOp>(matrix(a, m, k), matrix(b, k, n), false, false);
  return {c.reshape(y, sizesOf(batch + m + n)), batch + m + n};
}

/// The letters of an operand, an ellipsis as digits; none (after a gap) where one is there twice.
std::optional<std::string> expanded(Call &c, StringRef text, int64_t rank, int64_t &ellipsis) {
  std::string letters;
  size_t at = text.find("...");
  int64_t named = static_cast<int64_t>(text.size()) - (at == StringRef::npos ? 0 : 3);
  ellipsis = std::max(ellipsis, rank - named);
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == at) {
      for (int64_t d = rank - named; d > 0; --d) {
        letters.push_back(static_cast<char>('0' + d));
      }
      i += 2;
    } else {
      letters.push_back(text[i]);
    }
  }
  for (char letter : letters) {
    if (llvm::count(letters, letter) > 1) {
      c.gap("einsum with a letter twice in one operand is not supported",
            "take the diagonal before");
      return std::nullopt;
    }
  }
  if (static_cast<int64_t>(letters.size()) != rank) {
    c.error(ErrorId::Pt2BadGraph, "the equation does not fit the ranks of its operands");
    return std::nullopt;
  }
  return letters;
}

void einsum(Call &c) {
  std::string equation = c.text("equation", "");
  llvm::erase(equation, ' ');
  SmallVector<mlir::Value> operands = c.values("tensors");
  c.ignore({"path"});
  auto [left, right] = StringRef(equation).split("->");
  SmallVector<StringRef> parts;
  left.split(parts, ',');
  if (parts.size() != operands.size() || operands.empty()) {
    return c.error(ErrorId::Pt2BadGraph, "the equation does not fit the number of its operands");
  }
  SmallVector<Term> terms;
  int64_t ellipsis = 0;
  for (auto [part, operand] : llvm::zip_equal(parts, operands)) {
    std::optional<std::string> letters = expanded(c, part, rankOf(operand), ellipsis);
    if (!letters) {
      return;
    }
    terms.push_back({operand, *letters});
  }
  std::string result;
  if (StringRef(equation).contains("->")) {
    std::string dots;
    for (int64_t d = ellipsis; d > 0; --d) {
      dots.push_back(static_cast<char>('0' + d));
    }
    result = right.str();
    size_t at = result.find("...");
    if (at != std::string::npos) {
      result.replace(at, 3, dots);
    }
  } else {
    std::map<char, int> counts;
    for (const Term &term : terms) {
      for (char letter : term.letters) {
        ++counts[letter];
      }
    }
    for (auto [letter, count] : counts) {
      if (count == 1 || llvm::isDigit(letter)) {
        result.push_back(letter);
      }
    }
  }
  Term y = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string later = result;
    for (size_t j = i + 1; j < terms.size(); ++j) {
      later += terms[j].letters;
    }
    y = contract(c, y, terms[i], later);
  }
  y = y.value ? summed(c, y, result) : y;
  c.setOutput(y.value ? arranged(c, y, result) : mlir::Value());
}

constexpr OpRow kRows[] = {
    {"aten.matmul", matmul}, {"aten.mm", matmul},       {"aten.bmm", matmul},
    {"aten.mv", dot},        {"aten.dot", dot},         {"aten.linear", linear},
    {"aten.addmm", addmm},   {"aten.baddbmm", baddbmm}, {"aten.addmv", addmv},
    {"aten.einsum", einsum}, {"aten.outer", outer},     {"aten.ger", outer},
};

} // namespace

ArrayRef<OpRow> contractionRows() { return kRows; }

} // namespace tenon::pt2

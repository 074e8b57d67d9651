// Matrix products and einsum.
#include "compiler/frontend/common/Contraction.h"

#include "compiler/frontend/pt2/Call.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

void matmul(Call &c) {
  c.setOutput(
      frontend::matrixProduct(c, c.value("self"), c.value(c.has("other") ? "other" : "mat2")));
}
void dot(Call &c) {
  c.setOutput(
      frontend::matrixProduct(c, c.value("self"), c.value(c.has("tensor") ? "tensor" : "vec")));
}

void linear(Call &c) {
  mlir::Value x = c.value("input"), weight = c.value("weight"), bias = c.value("bias");
  if (!x || !weight) {
    return;
  }
  if (rankOf(weight) == 1) {
    mlir::Value y = frontend::matrixProduct(c, x, weight);
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
void addmm(Call &c) { addProduct(c, frontend::matrixProduct(c, c.value("mat1"), c.value("mat2"))); }
void baddbmm(Call &c) {
  addProduct(c, frontend::matrixProduct(c, c.value("batch1"), c.value("batch2")));
}
void addmv(Call &c) { addProduct(c, frontend::matrixProduct(c, c.value("mat"), c.value("vec"))); }

void outer(Call &c) {
  mlir::Value a = c.value("self"), b = c.value("vec2");
  if (a && b) {
    c.setOutput(c.mul(c.alongAxis(a, 0, 2), b));
  }
}

void einsum(Call &c) {
  c.ignore({"path"});
  c.setOutput(
      frontend::einsum(c, c.text("equation", ""), c.values("tensors"), ErrorId::Pt2BadGraph));
}

constexpr OpRow kContractionOpRows[] = {
    {"aten.matmul", matmul}, {"aten.mm", matmul},       {"aten.bmm", matmul},
    {"aten.mv", dot},        {"aten.dot", dot},         {"aten.linear", linear},
    {"aten.addmm", addmm},   {"aten.baddbmm", baddbmm}, {"aten.addmv", addmv},
    {"aten.einsum", einsum}, {"aten.outer", outer},     {"aten.ger", outer},
};

} // namespace

ArrayRef<OpRow> contractionRows() { return kContractionOpRows; }

} // namespace tenon::pt2

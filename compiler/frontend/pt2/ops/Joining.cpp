// Tensors side by side: concatenations, stacks, differences of neighbours.
#include "compiler/frontend/pt2/Call.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

void cat(Call &c) {
  SmallVector<mlir::Value> parts = c.values("tensors");
  Type element = c.resultElement();
  // Old programs join a list that begins with an empty tensor of one dim.
  llvm::erase_if(parts, [&](mlir::Value part) {
    return rankOf(part) == 1 && tn::constantDim(tn::getDims(part.getType())[0]) == 0;
  });
  if (parts.empty() || !element) {
    return c.setOutput(c.failed() ? mlir::Value()
                                  : c.broadcast(c.scalar(0, element), {c.constantSize(0)}));
  }
  for (mlir::Value &part : parts) {
    part = c.cast(part, element);
  }
  c.setOutput(c.concat(parts, c.axis("dim", 0, rankOf(parts[0]))));
}
void stack(Call &c) {
  SmallVector<mlir::Value> parts = c.values("tensors");
  Type element = c.resultElement();
  if (parts.empty() || !element) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(parts[0]) + 1);
  for (mlir::Value &part : parts) {
    tn::Dims dims = tn::getDims(part.getType());
    dims.insert(dims.begin() + axis, c.constantSize(1));
    part = c.reshape(c.cast(part, element), dims);
    if (!part) {
      return;
    }
  }
  c.setOutput(c.concat(parts, axis));
}

constexpr int64_t kMaxDifferences = 64;

/// The differences of neighbours along an axis, `n` times.
void difference(Call &c) {
  mlir::Value x = c.value("self");
  SmallVector<mlir::Value> parts;
  for (StringRef name : {"prepend", "append"}) {
    mlir::Value part = c.value(name);
    if (name == "append") {
      parts.push_back(x);
    }
    if (part) {
      parts.push_back(part);
    }
  }
  if (!x || rankOf(x) == 0) {
    return;
  }
  int64_t axis = c.axis("dim", -1, rankOf(x));
  x = c.concat(parts, axis);
  bool isTruth = x && getElementTypeOrSelf(x).isInteger(1);
  int64_t times = c.integer("n", 1);
  if (times > kMaxDifferences) {
    return c.gap("differences of more than " + Twine(kMaxDifferences) + " times",
                 "take them in steps");
  }
  for (int64_t i = 0; i < times && x; ++i) {
    AffineExpr one = c.constantSize(1);
    AffineExpr size = frontend::subtractSizes(tn::getDims(x.getType())[axis], one);
    if (!c.requireNotNegative({size}, "the number of differences")) {
      return;
    }
    mlir::Value after = c.sliceAxis(x, axis, one, size),
                before = c.sliceAxis(x, axis, c.constantSize(0), size);
    x = isTruth ? c.make<tn::XorOp>(after, before) : c.sub(after, before);
  }
  c.setOutput(x);
}

constexpr OpRow kJoiningOpRows[] = {
    {"aten.cat", cat},     {"aten.concat", cat},      {"aten.concatenate", cat},
    {"aten.stack", stack}, {"aten.diff", difference},
};

} // namespace

ArrayRef<OpRow> joiningRows() { return kJoiningOpRows; }

} // namespace tenon::pt2

// Evaluates the operations that move elements: they copy bytes and never look at values.
// Relies on Walker for strided reads; every read is checked against the operand's dims first.
#include "compiler/reference/Evaluation.h"

#include "support/Shape.h"
#include "llvm/Support/CheckedArithmetic.h"

#include <cstring>

using namespace mlir;

namespace tenon::reference {
namespace {

/// y[p] = x[start + p . strides] for every position p of y.
void copyStrided(ThreadPool &pool, const Tensor &x, int64_t start, const Sizes &strides,
                 Tensor &y) {
  size_t width = bitWidth(y.dtype()) / 8;
  pool.parallelFor(y.count(), [&](int64_t begin, int64_t end, unsigned) {
    Walker<1> walker(y.dims(), {strides}, begin);
    for (int64_t i = begin; i < end; ++i, walker.next()) {
      std::memcpy(y.mutableBytes() + i * width, x.bytes() + (start + walker.offset()) * width,
                  width);
    }
  });
}

Status evaluateReshape(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Sizes sizes, evaluation.sizesOf(evaluation.op->getResult(0).getType()));
  std::optional<int64_t> count = elementCount(std::span<const int64_t>(sizes.data(), sizes.size()));
  if (count != x.count()) {
    return badOperand("the shapes have different numbers of elements");
  }
  return evaluation.finish(x.reshaped(sizes));
}

Status evaluateTranspose(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Sizes own = stridesOf(x.dims());
  Sizes strides;
  for (auto [i, source] : llvm::enumerate(cast<tn::TransposeOp>(evaluation.op).getPermutation())) {
    if (y.dims()[i] != x.dims()[source]) {
      return badOperand("the result's shape is not the permuted one");
    }
    strides.push_back(own[source]);
  }
  copyStrided(evaluation.pool, x, 0, strides, y);
  return evaluation.finish(std::move(y));
}

Status evaluateBroadcast(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_ASSIGN(Sizes strides, broadcastStrides(x.dims(), y.dims()));
  copyStrided(evaluation.pool, x, 0, strides, y);
  return evaluation.finish(std::move(y));
}

Status evaluateConcat(Evaluation &evaluation) {
  int64_t axis = cast<tn::ConcatOp>(evaluation.op).getAxis();
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  int64_t inner = productOf(y.dims().drop_front(axis + 1)) * (bitWidth(y.dtype()) / 8);
  int64_t outer = productOf(y.dims().take_front(axis));
  int64_t start = 0;
  for (const Tensor &x : evaluation.operands) {
    Sizes expected(y.dims());
    expected[axis] = x.dims()[axis];
    if (x.dims() != llvm::ArrayRef<int64_t>(expected) || start + x.dims()[axis] > y.dims()[axis]) {
      return badOperand("the shapes of the operands do not fit");
    }
    int64_t block = x.dims()[axis] * inner;
    for (int64_t o = 0; o < outer; ++o) {
      std::memcpy(y.mutableBytes() + (o * y.dims()[axis] + start) * inner, x.bytes() + o * block,
                  block);
    }
    start += x.dims()[axis];
  }
  return start == y.dims()[axis] ? evaluation.finish(std::move(y))
                                 : badOperand("the operands do not fill the result");
}

Status evaluateSlice(Evaluation &evaluation) {
  tn::SliceOp op = cast<tn::SliceOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Sizes own = stridesOf(x.dims());
  Sizes strides;
  int64_t first = 0;
  for (int64_t i = 0; i < x.rank() && y.count() != 0; ++i) {
    int64_t step = op.getSteps()[i];
    std::optional<int64_t> start = tn::evaluate(op.getStarts().getResult(i), evaluation.symbols);
    std::optional<int64_t> last =
        start ? llvm::checkedMulAdd(y.dims()[i] - 1, step, *start) : std::nullopt;
    bool inside =
        start && *start >= 0 && *start < x.dims()[i] && last && *last >= 0 && *last < x.dims()[i];
    if (!inside) {
      return badOperand("the slice of dim " + std::to_string(i) + " leaves the tensor");
    }
    first += *start * own[i];
    // The step of a single element is not used and may be any number.
    strides.push_back(y.dims()[i] == 1 ? 0 : step * own[i]);
  }
  if (y.count() != 0) {
    copyStrided(evaluation.pool, x, first, strides, y);
  }
  return evaluation.finish(std::move(y));
}

/// The index in [0, size) that padding by `mode` reads at `at`; -1 for the padding value.
int64_t paddedIndex(tn::PadMode mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) {
    return at;
  }
  switch (mode) {
  case tn::PadMode::constant:
    return -1;
  case tn::PadMode::edge:
    return at < 0 ? 0 : size - 1;
  case tn::PadMode::wrap:
    return ((at % size) + size) % size;
  case tn::PadMode::reflect: {
    int64_t period = std::max<int64_t>(2 * (size - 1), 1);
    int64_t folded = ((at % period) + period) % period;
    return folded < size ? folded : period - folded;
  }
  }
  return -1;
}

Status evaluatePad(Evaluation &evaluation) {
  tn::PadOp op = cast<tn::PadOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  const Tensor *value = op.getValue() ? evaluation.find(op.getValue()) : nullptr;
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Sizes own = stridesOf(x.dims());
  for (int64_t i = 0; i < x.rank(); ++i) {
    bool fits = y.dims()[i] == x.dims()[i] + op.getBegins()[i] + op.getEnds()[i];
    if (!fits || (x.dims()[i] == 0 && y.count() != 0 && op.getMode() != tn::PadMode::constant)) {
      return badOperand("the pads do not fit dim " + std::to_string(i));
    }
  }
  size_t width = bitWidth(y.dtype()) / 8;
  Sizes none(x.rank(), 0);
  evaluation.pool.parallelFor(y.count(), [&](int64_t begin, int64_t end, unsigned) {
    Walker<1> walker(y.dims(), {none}, begin);
    for (int64_t i = begin; i < end; ++i, walker.next()) {
      int64_t offset = 0;
      bool padding = false;
      for (int64_t d = 0; d < x.rank(); ++d) {
        int64_t at = paddedIndex(op.getMode(), walker.at(d) - op.getBegins()[d], x.dims()[d]);
        padding |= at < 0;
        offset += at * own[d];
      }
      const char *source =
          padding ? (value ? value->bytes() : nullptr) : x.bytes() + offset * width;
      if (source) {
        std::memcpy(y.mutableBytes() + i * width, source, width);
      }
    }
  });
  return evaluation.finish(std::move(y));
}

Status evaluateIota(Evaluation &evaluation) {
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitElement(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using W = Wide<T>;
    using Wrapping = std::conditional_t<kIsFloat<T>, double, uint64_t>;
    Wrapping start = Wrapping(widen(evaluation.operands[0].as<T>()[0]));
    Wrapping step = Wrapping(widen(evaluation.operands[1].as<T>()[0]));
    for (int64_t i = 0; i < y.count(); ++i) {
      y.as<T>()[i] = narrow<T>(W(start + step * Wrapping(i)));
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateTrilu(Evaluation &evaluation) {
  tn::TriluOp op = cast<tn::TriluOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  int64_t columns = x.dims().back();
  int64_t rows = x.dims()[x.rank() - 2];
  // A diagonal beyond the matrix is as good as one at its corner.
  int64_t diagonal = std::clamp<int64_t>(op.getDiagonal(), -rows - 1, columns + 1);
  size_t width = bitWidth(y.dtype()) / 8;
  for (int64_t i = 0; i < y.count(); ++i) {
    int64_t distance = i % columns - i / columns % rows - diagonal;
    if (op.getUpper() ? distance >= 0 : distance <= 0) {
      std::memcpy(y.mutableBytes() + i * width, x.bytes() + i * width, width);
    }
  }
  return evaluation.finish(std::move(y));
}

constexpr OpRow kMovementOpRows[] = {
    {"tn.reshape", evaluateReshape},     {"tn.transpose", evaluateTranspose},
    {"tn.broadcast", evaluateBroadcast}, {"tn.concat", evaluateConcat},
    {"tn.slice", evaluateSlice},         {"tn.pad", evaluatePad},
    {"tn.iota", evaluateIota},           {"tn.trilu", evaluateTrilu},
};

} // namespace

llvm::ArrayRef<OpRow> movementOps() { return kMovementOpRows; }

} // namespace tenon::reference

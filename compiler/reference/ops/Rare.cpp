// Evaluates the operations of TnRareOps.td.
// Relies on LowBits.h for the formats of elements that are only stored.
#include "compiler/reference/Evaluation.h"
#include "compiler/reference/LowBits.h"

#include "compiler/graph/TnRare.h"

using namespace mlir;

namespace tenon::reference {
namespace {

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

Status evaluateEncode(Evaluation &evaluation) {
  tn::EncodeOp op = cast<tn::EncodeOp>(evaluation.op);
  LowBitRounding rounding{op.getSaturate(), std::string_view(op.getRound())};
  TENON_ASSIGN(Tensor y, encode(evaluation.operands[0], *dtypeOf(elementOf(op.getY())), rounding));
  return evaluation.finish(std::move(y));
}

Status evaluateDecode(Evaluation &evaluation) {
  Type element = elementOf(evaluation.op->getResult(0));
  TENON_ASSIGN(Tensor numbers, decode(evaluation.operands[0]));
  TENON_ASSIGN(Tensor y, convert(numbers, *storageOf(element, evaluation.precision)));
  return evaluation.finish(std::move(y));
}

Status evaluateUnpackBits(Evaluation &evaluation) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  int64_t bits = valueBits(y.dtype());
  for (int64_t i = 0; i < y.count(); ++i) {
    int64_t first = i * bits;
    y.as<uint8_t>()[i] = (x.as<uint8_t>()[first / 8] >> (first % 8)) & ((1 << bits) - 1);
  }
  return evaluation.finish(std::move(y));
}

/// The bytes stay, in the types as the model has them; a bool is any byte but zero.
Status evaluateBitcast(Evaluation &evaluation) {
  tn::BitcastOp op = cast<tn::BitcastOp>(evaluation.op);
  TENON_ASSIGN(Tensor x, convert(evaluation.operands[0], *dtypeOf(elementOf(op.getX()))));
  DType target = *dtypeOf(elementOf(op.getY()));
  TENON_ASSIGN(Tensor y, Tensor::copy(target, x.dims(), {x.bytes(), size_t(x.byteCount())}));
  for (int64_t i = 0; target == DType::Bool && i < y.count(); ++i) {
    y.as<Bool>()[i].value = y.as<Bool>()[i].value != 0;
  }
  TENON_ASSIGN(y, convert(y, *storageOf(elementOf(op.getY()), evaluation.precision)));
  return evaluation.finish(std::move(y));
}

/// The number of the first tap's position whose element is the window's largest.
template <typename T>
int64_t largestPosition(const Tensor &x, tn::MaxPoolIndexOp op, llvm::ArrayRef<int64_t> origin,
                        int64_t base) {
  size_t spatial = op.getKernel().size();
  Sizes strides = stridesOf(x.dims().drop_front(2));
  Walker<1> tap(op.getKernel(), {Sizes(spatial, 0)}, 0);
  int64_t best = -1;
  for (int64_t k = 0; k < productOf(op.getKernel()); ++k, tap.next()) {
    int64_t number = 0;
    bool inside = true;
    for (size_t d = 0; d < spatial; ++d) {
      int64_t at = origin[d] + tap.at(d) * op.getDilations()[d];
      inside &= at >= 0 && at < x.dims()[2 + d];
      number += at * strides[d];
    }
    if (!inside) {
      continue;
    }
    Wide<T> value = widen(x.as<T>()[base + number]);
    Wide<T> most = widen(x.as<T>()[base + std::max<int64_t>(best, 0)]);
    if (best < 0 || value > most || (value != value && most == most)) {
      best = number;
    }
  }
  return best;
}

Status evaluateMaxPoolIndex(Evaluation &evaluation) {
  tn::MaxPoolIndexOp op = cast<tn::MaxPoolIndexOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Sizes outer(x.rank(), 0);
  outer[1] = productOf(x.dims().drop_front(2));
  outer[0] = outer[1] * x.dims()[1];
  TENON_TRY(visitElement(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Walker<1> walker(y.dims(), {outer}, 0);
    Sizes origin(op.getKernel().size());
    for (int64_t i = 0; i < y.count(); ++i, walker.next()) {
      for (size_t d = 0; d < origin.size(); ++d) {
        origin[d] = walker.at(2 + d) * op.getStrides()[d] - op.getPads()[d];
      }
      y.as<int64_t>()[i] = largestPosition<T>(x, op, origin, walker.offset());
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

constexpr OpRow kRows[] = {
    {"tn.encode", evaluateEncode},
    {"tn.decode", evaluateDecode},
    {"tn.unpack_bits", evaluateUnpackBits},
    {"tn.bitcast", evaluateBitcast},
    {"tn.max_pool_index", evaluateMaxPoolIndex},
};

} // namespace

llvm::ArrayRef<OpRow> rareOps() { return kRows; }

} // namespace tenon::reference

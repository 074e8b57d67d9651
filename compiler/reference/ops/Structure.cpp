// Evaluates weights, constants, sizes and the layout of packed weights.
// Relies on the WeightStore for bytes, whose number is checked against the type.
#include "compiler/reference/Evaluation.h"

#include "support/text/Text.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include <cstring>

using namespace mlir;

namespace tenon::reference {
namespace {

/// The stored form of a constant's bytes, before any change of precision.
Result<Tensor> shareBytes(Evaluation &evaluation, llvm::ArrayRef<char> bytes) {
  RankedTensorType type = cast<RankedTensorType>(evaluation.op->getResult(0).getType());
  std::optional<DType> dtype = dtypeOf(type.getElementType());
  if (!dtype) {
    return badOperand("the constant's type cannot be held");
  }
  return Tensor::share(*dtype, type.getShape(), bytes);
}

Status finishConstant(Evaluation &evaluation, const Tensor &stored) {
  bool widens = evaluation.precision == Precision::F64 && isFloat(stored.dtype());
  TENON_ASSIGN(Tensor y, convert(stored, widens ? DType::F64 : stored.dtype()));
  return evaluation.finish(std::move(y));
}

Status evaluateWeight(Evaluation &evaluation) {
  llvm::StringRef id = cast<tn::WeightOp>(evaluation.op).getId();
  if (!evaluation.weights || !evaluation.weights->find(id)) {
    return Status::error(ErrorId::InternalError,
                         strCat("there is no weight '", std::string_view(id), "'"));
  }
  TENON_ASSIGN(Tensor stored, shareBytes(evaluation, evaluation.weights->bytes(id)));
  return finishConstant(evaluation, stored);
}

Status evaluateConstant(Evaluation &evaluation) {
  ElementsAttr value = cast<tn::ConstantOp>(evaluation.op).getValue();
  if (DenseResourceElementsAttr resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob) {
      return badOperand("the constant's bytes are missing");
    }
    TENON_ASSIGN(Tensor stored, shareBytes(evaluation, blob->getData()));
    return finishConstant(evaluation, stored);
  }
  DenseElementsAttr dense = dyn_cast<DenseElementsAttr>(value);
  std::optional<DType> dtype = dtypeOf(value.getElementType());
  if (!dense || !dtype) {
    return badOperand("the constant is of a kind that cannot be read");
  }
  TENON_ASSIGN(Tensor stored, Tensor::create(*dtype, dense.getType().getShape()));
  if (*dtype == DType::Bool) {
    for (auto [i, element] : llvm::enumerate(dense.getValues<bool>())) {
      stored.as<Bool>()[i].value = element;
    }
    return finishConstant(evaluation, stored);
  }
  llvm::ArrayRef<char> raw = dense.getRawData();
  size_t width = bitWidth(*dtype) / 8;
  for (int64_t i = 0; i < stored.count(); ++i) {
    std::memcpy(stored.mutableBytes() + i * width, raw.data() + (dense.isSplat() ? 0 : i * width),
                width);
  }
  return finishConstant(evaluation, stored);
}

Status evaluateSizes(Evaluation &evaluation) {
  AffineMap values = cast<tn::SizesOp>(evaluation.op).getValues();
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitInteger(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (auto [i, expression] : llvm::enumerate(values.getResults())) {
      std::optional<int64_t> value = tn::evaluate(expression, evaluation.symbols);
      if (!value) {
        return Status::error(ErrorId::RunBadSize, "a size cannot be computed for these inputs");
      }
      y.as<T>()[i] = narrow<T>(*value);
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

/// The index of an element in a packed array, by the definition of tn.pack: outer dims, then inner.
Sizes packedIndex(const tn::Packing &packing, llvm::ArrayRef<int64_t> index) {
  // Of each dim what is left within its last tile; the array's own loops first, then further ones.
  Sizes loops(index), rest(index);
  llvm::SmallVector<int64_t> lastEntry(index.size(), -1);
  for (auto [entry, dim] : llvm::enumerate(packing.innerDimsPos)) {
    int64_t tile = packing.innerTiles[entry];
    if (lastEntry[dim] < 0) {
      loops[dim] = rest[dim] / tile;
    } else {
      loops.push_back(rest[dim] / tile);
    }
    rest[dim] %= tile;
    lastEntry[dim] = entry;
  }
  Sizes packed;
  for (int64_t loop : packing.outerDimsPerm) {
    packed.push_back(loops[loop]);
  }
  for (auto [entry, dim] : llvm::enumerate(packing.innerDimsPos)) {
    if (lastEntry[dim] == int64_t(entry)) {
      packed.push_back(rest[dim]);
    }
  }
  return packed;
}

/// Calls move(offset in the array, offset in the packed one) for each element of an array.
template <typename Fn>
Status visitPacked(const tn::Packing &packing, const Tensor &array, const Tensor &packed,
                   const Fn &move) {
  std::string problem = tn::refusePacking(array.dims(), packing);
  if (!problem.empty() || llvm::ArrayRef(tn::packedShape(array.dims(), packing)) != packed.dims()) {
    return badOperand("what is packed does not fit the array");
  }
  Sizes strides = stridesOf(packed.dims());
  Sizes index(array.dims().size(), 0);
  for (int64_t offset = 0; offset < array.count(); ++offset) {
    int64_t place = 0;
    for (auto [position, stride] : llvm::zip_equal(packedIndex(packing, index), strides)) {
      place += position * stride;
    }
    move(offset, place);
    for (size_t dim = index.size(); dim-- > 0 && ++index[dim] == array.dims()[dim];) {
      index[dim] = 0;
    }
  }
  return Status::ok();
}

/// A result is zero where nothing is moved to.
Status evaluatePack(Evaluation &evaluation) {
  const Tensor &array = evaluation.operands[0];
  TENON_ASSIGN(Tensor packed, evaluation.makeResult());
  size_t width = bitWidth(packed.dtype()) / 8;
  tn::Packing packing = cast<tn::PackOp>(evaluation.op).packing();
  TENON_TRY(visitPacked(packing, array, packed, [&](int64_t offset, int64_t place) {
    std::memcpy(packed.mutableBytes() + place * width, array.bytes() + offset * width, width);
  }));
  return evaluation.finish(std::move(packed));
}

Status evaluateUnpack(Evaluation &evaluation) {
  const Tensor &packed = evaluation.operands[0];
  TENON_ASSIGN(Tensor array, evaluation.makeResult());
  size_t width = bitWidth(array.dtype()) / 8;
  tn::Packing packing = cast<tn::UnpackOp>(evaluation.op).packing();
  TENON_TRY(visitPacked(packing, array, packed, [&](int64_t offset, int64_t place) {
    std::memcpy(array.mutableBytes() + offset * width, packed.bytes() + place * width, width);
  }));
  return evaluation.finish(std::move(array));
}

/// Stages of a pipeline are computed one after the other.
Status evaluateSendReceive(Evaluation &evaluation) {
  return evaluation.finish(evaluation.operands[0]);
}

constexpr OpRow kStructureOpRows[] = {
    {"tn.weight", evaluateWeight}, {"tn.constant", evaluateConstant},
    {"tn.sizes", evaluateSizes},   {"tn.pack", evaluatePack},
    {"tn.unpack", evaluateUnpack}, {"tn.send_receive", evaluateSendReceive},
};

} // namespace

llvm::ArrayRef<OpRow> structureOps() { return kStructureOpRows; }

} // namespace tenon::reference

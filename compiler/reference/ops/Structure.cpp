// Evaluates weights, constants, sizes and the layout of packed weights.
// Relies on the WeightStore for bytes, whose number is checked against the type.
#include "compiler/graph/Winograd.h"
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

/// Calls move(offset in the weight, offset in the panels) for each element of a weight.
template <typename Op, typename Fn>
Status visitPanels(Op op, llvm::ArrayRef<int64_t> weightDims, const Tensor &packed,
                   const Fn &move) {
  Sizes own = stridesOf(weightDims);
  Sizes dims;
  Sizes strides;
  for (int64_t source : op.getPermutation()) {
    if (source < 0 || source >= int64_t(weightDims.size())) {
      return badOperand("the permutation does not fit the weight");
    }
    dims.push_back(weightDims[source]);
    strides.push_back(own[source]);
  }
  int64_t panel = op.getPanel();
  int64_t groups = op.getGroups();
  int64_t leading = std::min<int64_t>(op.getRows(), dims.size());
  int64_t rows = productOf(llvm::ArrayRef<int64_t>(dims).take_front(leading));
  int64_t columns = productOf(llvm::ArrayRef<int64_t>(dims).drop_front(leading));
  int64_t perGroup = groups > 0 ? columns / groups : 0;
  int64_t panels = panel > 0 ? (perGroup + panel - 1) / panel : 0;
  if (dims.size() != weightDims.size() || perGroup * groups != columns ||
      packed.count() != std::max<int64_t>(groups, 1) * panels * rows * panel) {
    return badOperand("the panels do not fit the weight");
  }
  Walker<1> walker(dims, {strides}, 0);
  for (int64_t i = 0; i < rows * columns; ++i, walker.next()) {
    int64_t row = i / columns;
    int64_t group = i % columns / perGroup;
    int64_t column = i % columns % perGroup;
    move(walker.offset(),
         ((group * panels + column / panel) * rows + row) * panel + column % panel);
  }
  return Status::ok();
}

/// Filters with the taps of one dim transformed to m + 2 values, or back to taps.
Result<Tensor> transformAlong(const Tensor &from, int64_t dim, int64_t m, bool isForward) {
  Sizes dims(from.dims());
  int64_t source = isForward ? winograd::kTaps : m + 2;
  if (dims[dim] != source) {
    return badOperand("the filters are of another size");
  }
  dims[dim] = isForward ? m + 2 : winograd::kTaps;
  TENON_ASSIGN(Tensor to, Tensor::create(from.dtype(), dims));
  int64_t inner = productOf(from.dims().drop_front(dim + 1));
  int64_t outer = productOf(from.dims().take_front(dim));
  TENON_TRY(visitFloat(from.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::vector<double> values(m + 2);
    std::array<double, winograd::kTaps> taps;
    for (int64_t i = 0; i < outer * inner; ++i) {
      int64_t rest = i % inner, line = i / inner;
      auto read = [&](int64_t k) {
        return static_cast<double>(from.as<T>()[(line * source + k) * inner + rest]);
      };
      if (isForward) {
        taps = {read(0), read(1), read(2)};
        winograd::transformFilter(m, taps, values.data());
      } else {
        for (int64_t k = 0; k < source; ++k) {
          values[k] = read(k);
        }
        taps = winograd::originalFilter(m, values.data());
      }
      for (int64_t k = 0; k < dims[dim]; ++k) {
        to.as<T>()[(line * dims[dim] + k) * inner + rest] =
            static_cast<T>(isForward ? values[k] : taps[k]);
      }
    }
    return Status::ok();
  }));
  return to;
}

/// The m of a pack or unpack whose filters are transformed, else 0.
int64_t winogradOf(Operation *op) {
  IntegerAttr winograd = op->getAttrOfType<IntegerAttr>(winograd::kAttribute);
  return winograd ? winograd.getInt() : 0;
}

Status evaluatePack(Evaluation &evaluation) {
  tn::PackOp pack = cast<tn::PackOp>(evaluation.op);
  Tensor weight = evaluation.operands[0];
  if (int64_t m = winogradOf(pack)) {
    for (int64_t dim : pack.getPermutation().take_front(2)) {
      TENON_ASSIGN(weight, transformAlong(weight, dim, m, /*isForward=*/true));
    }
  }
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  size_t width = bitWidth(y.dtype()) / 8;
  TENON_TRY(visitPanels(pack, weight.dims(), y, [&](int64_t offset, int64_t place) {
    std::memcpy(y.mutableBytes() + place * width, weight.bytes() + offset * width, width);
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateUnpack(Evaluation &evaluation) {
  tn::UnpackOp unpack = cast<tn::UnpackOp>(evaluation.op);
  const Tensor &packed = evaluation.operands[0];
  TENON_ASSIGN(Tensor weight, evaluation.makeResult());
  int64_t m = winogradOf(unpack);
  if (m) {
    Sizes dims(weight.dims());
    for (int64_t dim : unpack.getPermutation().take_front(2)) {
      dims[dim] = m + 2;
    }
    TENON_ASSIGN(weight, Tensor::create(weight.dtype(), dims));
  }
  size_t width = bitWidth(weight.dtype()) / 8;
  TENON_TRY(visitPanels(unpack, weight.dims(), packed, [&](int64_t offset, int64_t place) {
    std::memcpy(weight.mutableBytes() + offset * width, packed.bytes() + place * width, width);
  }));
  for (int64_t dim : unpack.getPermutation().take_front(m ? 2 : 0)) {
    TENON_ASSIGN(weight, transformAlong(weight, dim, m, /*isForward=*/false));
  }
  return evaluation.finish(std::move(weight));
}

constexpr OpRow kRows[] = {
    {"tn.weight", evaluateWeight}, {"tn.constant", evaluateConstant}, {"tn.sizes", evaluateSizes},
    {"tn.pack", evaluatePack},     {"tn.unpack", evaluateUnpack},
};

} // namespace

llvm::ArrayRef<OpRow> structureOps() { return kRows; }

} // namespace tenon::reference

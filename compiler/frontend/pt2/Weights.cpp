// The program's weights: tensors that lie in an archive's storages with strides, and buffers whose
// values are state.
#include "compiler/frontend/pt2/Importer.h"
#include "mlir/IR/TypeUtilities.h"
#include "support/Shape.h"
#include "support/text/Text.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;

namespace tenon::pt2 {
namespace {

Status weightError(std::string_view name, std::string_view what) {
  return Status::error(ErrorId::Pt2BadWeight, strCat("weight '", name, "': ", what), kSaveAgain);
}

/// A tensor that lies in its storage with strides, as a dense one.
std::vector<char> gathered(Bytes storage, ArrayRef<int64_t> dims, ArrayRef<int64_t> strides,
                           int64_t offset, int64_t width, int64_t count) {
  std::vector<char> dense(static_cast<size_t>(count * width));
  SmallVector<int64_t> index(dims.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = offset;
    for (size_t d = 0; d < dims.size(); ++d) {
      at += index[d] * strides[d];
    }
    std::memcpy(dense.data() + i * width, storage.data() + at * width, static_cast<size_t>(width));
    for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) {
      index[d] = 0;
    }
  }
  return dense;
}

/// What a weight with strides may become in memory: a base, and so many times its storage.
constexpr uint64_t kMaxGathered = uint64_t{16} << 20, kMaxRepeats = 8;

struct Layout {
  SmallVector<int64_t> dims;
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  int64_t count = 1;
  int64_t last = -1; ///< the highest element that is read
  bool isDense = true;
};

/// None if a number is no constant, is negative or overflows.
std::optional<Layout> layoutOf(const TensorMeta &meta) {
  Layout layout;
  layout.offset = meta.offset.constant.value_or(0);
  if (meta.sizes.size() != meta.strides.size() || layout.offset < 0) {
    return std::nullopt;
  }
  for (auto [size, stride] : llvm::zip_equal(meta.sizes, meta.strides)) {
    if (!size.constant || !stride.constant || *size.constant < 0 || *stride.constant < 0) {
      return std::nullopt;
    }
    layout.dims.push_back(*size.constant);
    layout.strides.push_back(*stride.constant);
  }
  std::optional<int64_t> count = elementCount(layout.dims);
  if (!count) {
    return std::nullopt;
  }
  layout.count = *count;
  int64_t last = layout.offset, dense = 1;
  for (size_t d = layout.dims.size(); d-- > 0;) {
    int64_t reach = 0;
    if (*count != 0 && (llvm::MulOverflow(layout.dims[d] - 1, layout.strides[d], reach) ||
                        llvm::AddOverflow(last, reach, last))) {
      return std::nullopt;
    }
    layout.isDense &= layout.dims[d] == 1 || layout.strides[d] == dense;
    dense *= layout.dims[d];
  }
  layout.last = *count == 0 ? -1 : last;
  return layout;
}

/// The real (0) or imaginary (1) numbers of a complex weight, which lie beside each other.
Weight partOf(const Weight &weight, int64_t scalarType, int64_t part) {
  Weight result = weight;
  result.meta.scalarType = scalarType;
  for (Size &stride : result.meta.strides) {
    stride.constant = stride.constant ? std::optional(2 * *stride.constant) : std::nullopt;
  }
  result.meta.offset.constant = 2 * result.meta.offset.constant.value_or(0) + part;
  return result;
}

} // namespace

Result<mlir::Value> Importer::weightValue(const std::string &name, const Weight &weight) {
  std::optional<DType> dtype = dtypeOf(weight.meta.scalarType);
  Type element = dtype ? elementType(*dtype) : Type();
  if (weight.isPickled || !weight.meta.isStrided || !element) {
    bool isType = !weight.isPickled && weight.meta.isStrided;
    addGap(
        portGap(
            "Weight", name,
            isType
                ? strCat("weights of type ", nameOfScalarType(weight.meta.scalarType),
                         " are not supported")
                : "it is not a plain tensor: PyTorch stored it as a pickle or in a special layout",
            ""),
        isType ? "convert it before the export"
               : "convert it with .to_dense() or .dequantize() before the export");
    return mlir::Value();
  }
  std::optional<Layout> layout = layoutOf(weight.meta);
  int64_t width = bitWidth(*dtype) / 8;
  if (!layout || layout->last >= static_cast<int64_t>(weight.bytes.size()) / width) {
    return weightError(name, "its storage is smaller than its shape, strides and type need");
  }
  RankedTensorType type = RankedTensorType::get(layout->dims, element);
  TENON_TRY(checkValueType(type, name));
  std::optional<int64_t> needed = byteSize(*dtype, layout->dims);
  uint64_t size = static_cast<uint64_t>(needed.value_or(0));
  if (!needed || (!layout->isDense && size > kMaxGathered + kMaxRepeats * weight.bytes.size())) {
    return weightError(
        name, "its strides repeat elements so often that it would be far larger than its storage");
  }
  Bytes dense = layout->isDense
                    ? weight.bytes.subspan(layout->count ? layout->offset * width : 0, size)
                    : Bytes();
  std::vector<char> made;
  if (!layout->isDense) {
    made =
        gathered(weight.bytes, layout->dims, layout->strides, layout->offset, width, layout->count);
    dense = std::as_bytes(std::span(made));
  }
  if (!layout->isDense) {
    std::shared_ptr<std::vector<char>> owned = std::make_shared<std::vector<char>>(std::move(made));
    store.keep(owned);
  }
  return constantValue(type, dense, name);
}

/// A buffer that the program writes: an argument, which holds the buffer's first value until it is
/// written.
mlir::Value Importer::stateValue(const std::string &name, mlir::Value initial) {
  RankedTensorType type = cast<RankedTensorType>(initial.getType());
  mlir::Value state = addInput(strCat(name, ".state"), tn::getDims(type), type.getElementType());
  if (isZero(initial)) {
    return state;
  }
  if (!started) {
    started = addInput(kStarted, {}, builder.getI1Type());
  }
  return tn::SelectOp::create(builder, initial.getLoc(), type, started, state, initial);
}

bool Importer::isZero(mlir::Value value) {
  tn::WeightOp weight = value.getDefiningOp<tn::WeightOp>();
  tn::ConstantOp constant = value.getDefiningOp<tn::ConstantOp>();
  if (constant) {
    DenseElementsAttr elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    return elements && llvm::all_of(elements.getRawData(), [](char byte) { return byte == 0; });
  }
  return weight && llvm::all_of(store.bytes(weight.getId()), [](char byte) { return byte == 0; });
}

Status Importer::importWeight(const InputSpec &spec, Scope &scope) {
  auto found = program.weights.find(spec.target);
  if (found == program.weights.end()) {
    return weightError(spec.target, "the archive does not contain it");
  }
  if (std::optional<int64_t> parts = partsOf(found->second.meta.scalarType);
      parts && stateful.count(spec.target) == 0) {
    TENON_ASSIGN(mlir::Value real, weightValue(spec.target, partOf(found->second, *parts, 0)));
    TENON_ASSIGN(mlir::Value imaginary,
                 weightValue(strCat(spec.target, ".imaginary"), partOf(found->second, *parts, 1)));
    scope[spec.argument.text] = real && imaginary
                                    ? Value{.tensor = std::make_shared<Tensor>(real),
                                            .imaginary = std::make_shared<Tensor>(imaginary)}
                                    : Value();
    return Status::ok();
  }
  TENON_ASSIGN(mlir::Value value, weightValue(spec.target, found->second));
  if (!value) {
    scope[spec.argument.text] = Value();
    return Status::ok();
  }
  bool isState = stateful.count(spec.target) != 0;
  std::shared_ptr<Tensor> tensor =
      std::make_shared<Tensor>(isState ? stateValue(spec.target, value) : value);
  scope[spec.argument.text] = {.tensor = tensor};
  buffers[spec.target] = tensor;
  return Status::ok();
}

} // namespace tenon::pt2

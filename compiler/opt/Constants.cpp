// Reads and makes the constants of a module, `tn.constant` and `tn.weight` alike.
// Relies on the weight store for the bytes of weights.
#include "compiler/opt/Constants.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace tenon::opt {
namespace {

/// Generated weights that are larger are made anew for each reader: a model's weights are read once
/// or twice, and all of them together are larger than memory may be.
constexpr uint64_t kMaxKeptBytes = uint64_t{64} << 10;

double decode(const char *data, Type element) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, elementBytes(element));
  if (FloatType type = dyn_cast<FloatType>(element)) {
    APFloat value(type.getFloatSemantics(), APInt(type.getWidth(), bits));
    bool losesInfo = false;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
    return value.convertToDouble();
  }
  unsigned width = element.getIntOrFloatBitWidth();
  APInt value(width, bits, /*isSigned=*/false, /*implicitTrunc=*/true);
  bool isUnsigned = element.isUnsignedInteger() || width == 1;
  return isUnsigned ? value.roundToDouble() : value.signedRoundToDouble();
}

void encode(double number, FloatType type, char *destination) {
  APFloat value(number);
  bool losesInfo = false;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  uint64_t bits = value.bitcastToAPInt().getZExtValue();
  std::memcpy(destination, &bits, elementBytes(type));
}

/// The bytes of one element of an attribute.
void appendElement(std::vector<char> &bytes, const APInt &value, int64_t size) {
  uint64_t bits = value.getZExtValue();
  const char *data = reinterpret_cast<const char *>(&bits);
  bytes.insert(bytes.end(), data, data + size);
}

} // namespace

int64_t elementBytes(Type element) {
  if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() > 64) {
    return 0;
  }
  unsigned width = element.getIntOrFloatBitWidth();
  return width < 8 ? 1 : (width % 8 == 0 ? width / 8 : 0);
}

bool isNear(double value, double expected, Type element) {
  double tolerance = 2e-6;
  if (element.isF16()) {
    tolerance = 1e-3;
  } else if (element.isBF16()) {
    tolerance = 8e-3;
  }
  return std::abs(value - expected) <= tolerance * std::abs(expected);
}

bool Constants::isConstant(Value value) {
  return isa_and_present<tn::ConstantOp, tn::WeightOp>(value.getDefiningOp());
}

std::vector<char> Constants::bytes(Value value) const {
  RankedTensorType type = dyn_cast<RankedTensorType>(value.getType());
  int64_t size = type && type.hasStaticShape() ? elementBytes(type.getElementType()) : 0;
  if (size == 0) {
    return {};
  }
  if (tn::WeightOp weight = value.getDefiningOp<tn::WeightOp>()) {
    const tn::WeightEntry *entry = weights.find(weight.getId());
    if (entry && entry->generate && !entry->isOfRank && entry->size > kMaxKeptBytes &&
        static_cast<int64_t>(entry->size) == size * type.getNumElements()) {
      std::vector<char> made(entry->size);
      entry->generate(0, entry->size, made.data());
      return made;
    }
    llvm::ArrayRef<char> stored = weights.bytes(weight.getId());
    bool complete = static_cast<int64_t>(stored.size()) == size * type.getNumElements();
    return complete ? std::vector<char>(stored.begin(), stored.end()) : std::vector<char>();
  }
  tn::ConstantOp constant = value.getDefiningOp<tn::ConstantOp>();
  DenseElementsAttr dense =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!dense) {
    return {};
  }
  std::vector<char> result;
  result.reserve(size * type.getNumElements());
  if (isa<FloatType>(type.getElementType())) {
    for (const APFloat &element : dense.getValues<APFloat>()) {
      appendElement(result, element.bitcastToAPInt(), size);
    }
  } else {
    for (const APInt &element : dense.getValues<APInt>()) {
      appendElement(result, element, size);
    }
  }
  return result;
}

std::optional<std::vector<double>> Constants::elements(Value value) const {
  if (!isConstant(value)) {
    return std::nullopt;
  }
  RankedTensorType type = cast<RankedTensorType>(value.getType());
  std::vector<char> data = bytes(value);
  int64_t size = elementBytes(type.getElementType());
  if (size == 0 || static_cast<int64_t>(data.size()) != size * type.getNumElements()) {
    return std::nullopt;
  }
  std::vector<double> result(type.getNumElements());
  if (type.getElementType().isF32()) {
    for (size_t i = 0; i < result.size(); ++i) {
      float number;
      std::memcpy(&number, data.data() + i * sizeof(number), sizeof(number));
      result[i] = number;
    }
    return result;
  }
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = decode(data.data() + i * size, type.getElementType());
  }
  return result;
}

std::optional<double> Constants::scalar(Value value) const {
  if (!isConstant(value)) {
    return std::nullopt;
  }
  RankedTensorType type = cast<RankedTensorType>(value.getType());
  tn::ConstantOp constant = value.getDefiningOp<tn::ConstantOp>();
  bool isSplat =
      constant && type.getNumElements() > 0 && isa<SplatElementsAttr>(constant.getValue());
  if (!isSplat && type.getNumElements() != 1) {
    return std::nullopt;
  }
  if (!isSplat) {
    std::optional<std::vector<double>> all = elements(value);
    return all ? std::optional<double>(all->front()) : std::nullopt;
  }
  SplatElementsAttr splat = cast<SplatElementsAttr>(constant.getValue());
  std::vector<char> data;
  Type element = type.getElementType();
  if (elementBytes(element) == 0) {
    return std::nullopt;
  }
  APInt bits = isa<FloatType>(element) ? splat.getSplatValue<APFloat>().bitcastToAPInt()
                                       : splat.getSplatValue<APInt>();
  appendElement(data, bits, elementBytes(element));
  return decode(data.data(), element);
}

Value Constants::make(OpBuilder &builder, Location location, RankedTensorType type,
                      std::vector<char> data, StringRef name, StringRef pass) const {
  Type element = type.getElementType();
  if (static_cast<int64_t>(data.size()) > kInlineBytes) {
    std::string id = weights.addOwned(name, std::move(data), ("pass " + pass).str());
    return tn::WeightOp::create(builder, location, type, id);
  }
  int64_t size = elementBytes(element);
  int64_t count = data.size() / size;
  DenseElementsAttr attribute;
  if (FloatType floating = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (int64_t i = 0; i < count; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, data.data() + i * size, size);
      values.emplace_back(floating.getFloatSemantics(), APInt(floating.getWidth(), bits));
    }
    attribute = DenseElementsAttr::get(type, values);
  } else {
    SmallVector<APInt> values;
    for (int64_t i = 0; i < count; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, data.data() + i * size, size);
      values.emplace_back(element.getIntOrFloatBitWidth(), bits, /*isSigned=*/false,
                          /*implicitTrunc=*/true);
    }
    attribute = DenseElementsAttr::get(type, values);
  }
  return tn::ConstantOp::create(builder, location, type, attribute);
}

Value Constants::make(OpBuilder &builder, Location location, RankedTensorType type,
                      ArrayRef<double> elements, StringRef name, StringRef pass) const {
  FloatType element = cast<FloatType>(type.getElementType());
  int64_t size = elementBytes(element);
  std::vector<char> data(elements.size() * size);
  for (size_t i = 0; i < elements.size(); ++i) {
    if (element.isF32()) {
      float number = static_cast<float>(elements[i]);
      std::memcpy(data.data() + i * sizeof(number), &number, sizeof(number));
      continue;
    }
    encode(elements[i], element, data.data() + i * size);
  }
  return make(builder, location, type, std::move(data), name, pass);
}

} // namespace tenon::opt

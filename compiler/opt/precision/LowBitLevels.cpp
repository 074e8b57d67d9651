// Reads weights of few bits row by row. Relies on the movement between a product and its weights
// being applied to indices by the reference.
#include "compiler/opt/precision/LowBitLevels.h"

#include "compiler/opt/Match.h"
#include "compiler/reference/Interpreter.h"
#include "mlir/IR/TypeUtilities.h"

#include <cstring>
#include <numeric>

using namespace mlir;

namespace tenon::opt {
namespace {

/// Movement and casts looked through between a product and its weights.
constexpr int kLowBitSteps = 16;

/// What is left of zero points that are no integers, times their scales.
bool isRestOfZeroPoints(tn::SubOp op) {
  tn::DequantizeOp source = op.getA().getDefiningOp<tn::DequantizeOp>();
  RankedTensorType rest = tensorType(op.getB());
  return source && tensorType(source.getScale()).getRank() == 1 && source.getAxis() == 0 &&
         Constants::isConstant(op.getB()) && rest.getRank() == 2 && rest.getDimSize(1) == 1 &&
         rest.getDimSize(0) == tensorType(source.getScale()).getDimSize(0) &&
         tensorType(source.getX()).getRank() == 2;
}

/// Rows of so many become columns.
void transposePlaces(std::vector<int32_t> &places, int64_t width) {
  int64_t height = static_cast<int64_t>(places.size()) / width;
  std::vector<int32_t> result(places.size());
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      result[j * height + i] = places[i * width + j];
    }
  }
  places = std::move(result);
}

/// Which element of what is dequantized each element of the matrix is: the movement, applied to
/// indices. Empty for those that stay in their order and are multiplied so.
std::optional<std::vector<int32_t>> placesOf(Value matrix, Origin &origin, bool isTransposed,
                                             tn::WeightStore &weights) {
  RankedTensorType from = tensorType(origin.source.getX());
  bool isInOrder = llvm::all_of(
      origin.moves, [](Operation *move) { return isa<tn::CastOp, tn::ReshapeOp>(move); });
  if (isInOrder && !isTransposed && from.getNumElements() == tensorType(matrix).getNumElements()) {
    return std::vector<int32_t>();
  }
  Result<reference::Tensor> tensor = reference::Tensor::create(DType::I32, from.getShape());
  if (tensor) {
    std::iota(tensor->as<int32_t>(), tensor->as<int32_t>() + tensor->count(), 0);
  }
  // The interpreter goes by types, so it gets the movement of such a tensor.
  OpBuilder builder(origin.source);
  Type i32 = builder.getI32Type();
  Value moved = castTo(builder, matrix.getLoc(), origin.source.getX(), i32);
  SmallVector<Operation *> made = {moved.getDefiningOp()};
  reference::Interpreter interpreter(&weights, {});
  for (Operation *move : origin.moves) {
    if (isa<tn::CastOp>(move) || !tensor) {
      continue;
    }
    made.push_back(
        rebuild(builder, move, moved, tn::withElement(move->getResult(0).getType(), i32)));
    moved = made.back()->getResult(0);
    Result<std::vector<reference::Tensor>> results = interpreter.evaluateOp(made.back(), {*tensor});
    tensor = results ? Result<reference::Tensor>(std::move(results->front()))
                     : Result<reference::Tensor>(results.takeStatus());
  }
  for (Operation *op : llvm::reverse(made)) {
    op->erase();
  }
  if (!tensor || tensor->count() != tensorType(matrix).getNumElements()) {
    return std::nullopt;
  }
  return std::vector<int32_t>(tensor->as<int32_t>(), tensor->as<int32_t>() + tensor->count());
}

} // namespace

std::optional<Origin> Origin::of(Value matrix) {
  Origin origin;
  for (int steps = 0; steps < kLowBitSteps; ++steps) {
    Operation *op = matrix.getDefiningOp();
    if (tn::DequantizeOp source = dyn_cast_or_null<tn::DequantizeOp>(op)) {
      origin.source = source;
      std::reverse(origin.moves.begin(), origin.moves.end());
      return origin;
    }
    tn::SubOp difference = dyn_cast_or_null<tn::SubOp>(op);
    if (difference && isRestOfZeroPoints(difference)) {
      origin.rest = difference.getB();
      matrix = difference.getA();
      continue;
    }
    if (!isMoved(op) && !isa_and_nonnull<tn::CastOp>(op)) {
      return std::nullopt;
    }
    origin.moves.push_back(op);
    matrix = op->getOperand(0);
  }
  return std::nullopt;
}

std::optional<LevelMatrix> LevelMatrix::of(tn::MatmulOp product, Origin &origin,
                                           tn::WeightStore &weights) {
  Constants constants(weights);
  tn::DequantizeOp source = origin.source;
  RankedTensorType type = tensorType(product.getB()), from = tensorType(source.getX());
  int64_t depthDim = product.getTransposeB() ? 1 : 0;
  std::optional<std::vector<int32_t>> places =
      placesOf(product.getB(), origin, /*isTransposed=*/depthDim == 0, weights);
  if (!places) {
    return std::nullopt;
  }
  if (depthDim == 0) {
    transposePlaces(*places, type.getDimSize(1));
  }
  LevelMatrix levels;
  levels.columns = type.getDimSize(1 - depthDim);
  levels.depth = type.getDimSize(depthDim);
  levels.isUnsigned = from.getElementType().isUnsignedInteger();
  levels.places = std::move(*places);
  if (tensorType(source.getScale()).getRank() == 1) {
    int64_t axis = static_cast<int64_t>(source.getAxis());
    levels.size = from.getDimSize(axis);
    levels.inner = 1;
    for (int64_t dim : from.getShape().drop_front(axis + 1)) {
      levels.inner *= dim;
    }
  }
  bool isInOrder = levels.places.empty();
  if (!(isInOrder && levels.readParametersInPlace(origin, weights)) &&
      !levels.readParameters(origin, constants)) {
    return std::nullopt;
  }
  if (isInOrder) {
    levels.numbers = WeightSource::of(source.getX(), weights);
    return levels.numbers.isComplete() ? std::optional(std::move(levels)) : std::nullopt;
  }
  levels.bytes = constants.bytes(source.getX());
  return levels.bytes.empty() ? std::nullopt : std::optional(std::move(levels));
}

/// Of numbers in order, where each parameter holds for neighbours.
bool LevelMatrix::readParametersInPlace(Origin &origin, tn::WeightStore &weights) {
  tn::DequantizeOp source = origin.source;
  auto isReal = [](Value value) { return getElementTypeOrSelf(value).isF32(); };
  int64_t count = tensorType(source.getX()).getNumElements();
  bool isForNeighbours = size == 1 || size * inner == count;
  if (!isForNeighbours || !Constants::isConstant(source.getScale()) ||
      !Constants::isConstant(source.getZeroPoint()) || !isReal(source.getScale()) ||
      (origin.rest && !isReal(origin.rest)) ||
      tensorType(source.getZeroPoint()).getNumElements() != size) {
    return false;
  }
  inner = size == 1 ? count : inner;
  hasRests = origin.rest != nullptr;
  scales = WeightSource::of(source.getScale(), weights);
  zeros = WeightSource::of(source.getZeroPoint(), weights);
  rests = hasRests ? WeightSource::of(origin.rest, weights) : WeightSource();
  return scales.isComplete() && zeros.isComplete() && (!hasRests || rests.isComplete());
}

bool LevelMatrix::readParameters(Origin &origin, const Constants &constants) {
  tn::DequantizeOp source = origin.source;
  std::optional<std::vector<double>> allScales = constants.elements(source.getScale()),
                                     allZeros = constants.elements(source.getZeroPoint());
  std::optional<std::vector<double>> allRests =
      origin.rest ? constants.elements(origin.rest) : std::vector<double>();
  if (!allScales || !allZeros || !allRests || allScales->empty() ||
      allZeros->size() != allScales->size() ||
      (origin.rest && allRests->size() != allScales->size())) {
    return false;
  }
  for (size_t i = 0; i < allScales->size(); ++i) {
    double scale = (*allScales)[i];
    double rest = origin.rest && scale != 0 ? (*allRests)[i] / scale : 0;
    parameters.push_back({scale, (*allZeros)[i] + rest});
  }
  return true;
}

void LevelMatrix::readNumbersInOrder(int64_t column, LevelRow &row) const {
  std::vector<char> raw(depth);
  numbers.read(column * depth, depth, raw.data());
  for (int64_t i = 0; i < depth; ++i) {
    row.numbers[i] = isUnsigned ? int16_t(uint8_t(raw[i])) : int16_t(int8_t(raw[i]));
  }
}

void LevelMatrix::readRunsInPlace(int64_t column, LevelRow &row) const {
  int64_t begin = column * depth, first = begin / inner, last = (begin + depth - 1) / inner;
  size_t count = last - first + 1;
  std::vector<float> ofScale(count), ofRest(count, 0);
  std::vector<char> ofZero(count);
  auto read = [&](const WeightSource &source, auto &to) {
    constexpr uint64_t kBytes = sizeof(to[0]);
    source.read(first * kBytes, count * kBytes, reinterpret_cast<char *>(to.data()));
  };
  read(scales, ofScale);
  read(zeros, ofZero);
  if (hasRests) {
    read(rests, ofRest);
  }
  for (size_t i = 0; i < count; ++i) {
    double scale = ofScale[i], zero = isUnsigned ? uint8_t(ofZero[i]) : int8_t(ofZero[i]);
    zero += hasRests && scale != 0 ? ofRest[i] / scale : 0;
    int64_t start = (first + static_cast<int64_t>(i)) * inner - begin;
    row.runs.push_back({std::max<int64_t>(start, 0), std::min(start + inner, depth), scale, zero});
  }
}

void LevelMatrix::read(int64_t column, LevelRow &row) const {
  row.numbers.resize(depth);
  row.runs.clear();
  if (places.empty()) {
    readNumbersInOrder(column, row);
  }
  if (isReadInPlace()) {
    return readRunsInPlace(column, row);
  }
  int64_t known = -1;
  for (int64_t i = 0; i < depth; ++i) {
    int64_t at = column * depth + i;
    if (!places.empty()) {
      at = places[at];
      row.numbers[i] = isUnsigned ? int16_t(uint8_t(bytes[at])) : int16_t(int8_t(bytes[at]));
    }
    int64_t parameter = at / inner % size;
    if (parameter != known) {
      row.runs.push_back({i, i, parameters[parameter].scale, parameters[parameter].zero});
      known = parameter;
    }
    row.runs.back().end = i + 1;
  }
}

} // namespace tenon::opt

// Products of floats with weights that are integers of few bits behind scales: the weights stay so
// small in the engine, as rows of blocks (graph/BlockRows.h) that the product's kernel takes apart.
// Relies on constant folding leaving tn.dequantize of such weights, and on integer-products having
// taken what it multiplies as integers. One file: reading levels and storing them are two sides of
// one form.
#include "compiler/graph/TnRare.h"
#include "compiler/opt/GpuProducts.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"
#include "compiler/reference/Interpreter.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <cstring>
#include <numeric>

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kLowBitPass = "low-bit-weights";

/// Weights of all such products that take no more than this in FP32 stay in the cache of one core
/// from run to run, where reading them costs less than taking numbers apart.
constexpr int64_t kCached = 1 << 20;
/// Movement and casts looked through between a product and its weights.
constexpr int kLowBitSteps = 16;
/// Numbers of a block: more would be summed in too long a chain, and fewer weigh less than their
/// scale.
constexpr int64_t kMaxOfBlock = 256, kMinOfBlock = 16;
constexpr int64_t kMaxElements = int64_t(1) << 31;
/// Rows up to which a product of bf16 is bound by the stream of weights, not by its arithmetic,
/// which levels have instructions for.
constexpr int64_t kFewRows = 8;

/// Where the matrix B of a product comes from: 8-bit numbers behind tn.dequantize, moved and cast.
struct Origin {
  tn::DequantizeOp source;
  Value rest; ///< constant of [rows, 1] that is taken off rows of numbers, or null
  SmallVector<Operation *> moves; ///< from there to the product

  /// What is left of zero points that are no integers, times their scales.
  static bool isRestOfZeroPoints(tn::SubOp op) {
    tn::DequantizeOp source = op.getA().getDefiningOp<tn::DequantizeOp>();
    RankedTensorType rest = tensorType(op.getB());
    return source && tensorType(source.getScale()).getRank() == 1 && source.getAxis() == 0 &&
           Constants::isConstant(op.getB()) && rest.getRank() == 2 && rest.getDimSize(1) == 1 &&
           rest.getDimSize(0) == tensorType(source.getScale()).getDimSize(0) &&
           tensorType(source.getX()).getRank() == 2;
  }

  static std::optional<Origin> of(Value matrix) {
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
};

/// A matrix of numbers, row by row [columns of the product, depth], each with the index of its
/// scale and zero point.
///
/// Only the numbers, of a byte each, are there for the whole matrix where it is stored as it is
/// multiplied: large models have matrices of a billion numbers.
struct Levels {
  int64_t columns = 0, depth = 0;
  bool isUnsigned = false;
  std::vector<char> bytes;
  std::vector<int32_t> places;       ///< of the numbers among `bytes`; empty for their own order
  int64_t inner = 1, size = 1;       ///< that one parameter holds for, and how many there are
  std::vector<double> scales, zeros; ///< zeros: one, or one for each scale

  double zeroOf(int32_t parameter) const { return zeros[zeros.size() == 1 ? 0 : parameter]; }
  double scaleOf(int32_t parameter) const { return scales[scales.size() == 1 ? 0 : parameter]; }

  /// Of one column.
  struct Row {
    std::vector<int16_t> numbers;
    std::vector<int32_t> parameters;
  };
  void read(int64_t column, Row &row) const {
    row.numbers.resize(depth);
    row.parameters.resize(depth);
    for (int64_t i = 0; i < depth; ++i) {
      int64_t at = column * depth + i, place = places.empty() ? at : places[at];
      row.numbers[i] = isUnsigned ? int16_t(uint8_t(bytes[place])) : int16_t(int8_t(bytes[place]));
      bool isSame = i > 0 && places.empty() && place % inner != 0;
      row.parameters[i] =
          isSame ? row.parameters[i - 1] : static_cast<int32_t>(place / inner % size);
    }
  }
};

class Reader {
public:
  Reader(tn::WeightStore &weights) : constants(weights) {}

  std::optional<Levels> read(tn::MatmulOp product, Origin &origin) {
    tn::DequantizeOp source = origin.source;
    std::optional<std::vector<double>> scales = constants.elements(source.getScale());
    std::optional<std::vector<double>> zeros = constants.elements(source.getZeroPoint());
    std::vector<char> bytes = constants.bytes(source.getX());
    std::optional<std::vector<int32_t>> places =
        placesOf(product.getB(), origin, /*isTransposed=*/!product.getTransposeB());
    if (origin.rest && scales && zeros && !addRest(origin.rest, *scales, *zeros)) {
      return std::nullopt;
    }
    if (!scales || !zeros || scales->empty() || zeros->empty() || bytes.empty() || !places) {
      return std::nullopt;
    }
    RankedTensorType type = tensorType(product.getB()), from = tensorType(source.getX());
    int64_t depthDim = product.getTransposeB() ? 1 : 0;
    int64_t axis = static_cast<int64_t>(source.getAxis()), inner = 1, size = 1;
    if (tensorType(source.getScale()).getRank() == 1) {
      size = from.getDimSize(axis);
      inner = productOf(from.getShape().drop_front(axis + 1));
    }
    if (depthDim == 0) {
      transpose(*places, type.getDimSize(1));
    }
    Levels levels{.columns = type.getDimSize(1 - depthDim),
                  .depth = type.getDimSize(depthDim),
                  .isUnsigned = from.getElementType().isUnsignedInteger(),
                  .bytes = std::move(bytes),
                  .places = std::move(*places),
                  .inner = inner,
                  .size = size,
                  .scales = std::move(*scales),
                  .zeros = std::move(*zeros)};
    return levels;
  }

private:
  bool addRest(Value rest, ArrayRef<double> scales, std::vector<double> &zeros) const {
    std::optional<std::vector<double>> scaled = constants.elements(rest);
    if (!scaled || scaled->size() != scales.size() || zeros.size() != scales.size()) {
      return false;
    }
    for (auto [zero, part, scale] : llvm::zip_equal(zeros, *scaled, scales)) {
      zero += scale == 0 ? 0 : part / scale;
    }
    return true;
  }

  /// Rows of so many become columns.
  static void transpose(std::vector<int32_t> &places, int64_t width) {
    int64_t height = static_cast<int64_t>(places.size()) / width;
    std::vector<int32_t> result(places.size());
    for (int64_t i = 0; i < height; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        result[j * height + i] = places[i * width + j];
      }
    }
    places = std::move(result);
  }

  static int64_t productOf(ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
  }

  /// Which element of what is dequantized each element of the matrix is: the movement, applied to
  /// indices. Empty for those that stay in their order and are multiplied so.
  std::optional<std::vector<int32_t>> placesOf(Value matrix, Origin &origin, bool isTransposed) {
    RankedTensorType from = tensorType(origin.source.getX());
    bool isInOrder = llvm::all_of(
        origin.moves, [](Operation *move) { return isa<tn::CastOp, tn::ReshapeOp>(move); });
    if (isInOrder && !isTransposed &&
        from.getNumElements() == tensorType(matrix).getNumElements()) {
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
    reference::Interpreter interpreter(&constants.weights, {});
    for (Operation *move : origin.moves) {
      if (isa<tn::CastOp>(move) || !tensor) {
        continue;
      }
      made.push_back(
          rebuild(builder, move, moved, tn::withElement(move->getResult(0).getType(), i32)));
      moved = made.back()->getResult(0);
      Result<std::vector<reference::Tensor>> results =
          interpreter.evaluateOp(made.back(), {*tensor});
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

  Constants constants;
};

/// The greatest common divisor of `common` and of where other parameters begin in a column.
int64_t boundaries(const Levels &levels, int64_t common) {
  Levels::Row row;
  for (int64_t column = 0; column < levels.columns; ++column) {
    levels.read(column, row);
    for (int64_t i = 1; i < levels.depth; ++i) {
      common = row.parameters[i] != row.parameters[i - 1] ? std::gcd(common, i) : common;
    }
  }
  return common;
}

/// The largest block that the scales of all columns allow, none where it is too small. Blocks of
/// the model that are larger are cut into equal ones.
std::optional<int64_t> blockOf(const Levels &levels, int64_t elementsOfWord) {
  int64_t whole = llvm::alignTo(levels.depth, elementsOfWord), common = boundaries(levels, 0);
  if (common == 0) {
    return std::min(whole, kMaxOfBlock);
  }
  int64_t block = std::min(common, kMaxOfBlock) / elementsOfWord * elementsOfWord;
  while (block >= kMinOfBlock && common % block != 0) {
    block -= elementsOfWord;
  }
  return block >= kMinOfBlock ? std::optional(block) : std::nullopt;
}

/// How the numbers are stored: in the fewest bits, without zero points where the differences fit.
struct Storing {
  int64_t bits;
  bool hasZeroPoints;
  int64_t shift; ///< that numbers and zero points, or differences, get to be unsigned
};

Storing storingOf(const Levels &levels) {
  double least = 0, most = 0;
  bool areWhole = llvm::all_of(levels.zeros, [](double zero) { return zero == std::floor(zero); });
  int16_t leastNumber = 0, mostNumber = 0;
  Levels::Row row;
  for (int64_t column = 0; column < levels.columns; ++column) {
    levels.read(column, row);
    for (auto [number, parameter] : llvm::zip_equal(row.numbers, row.parameters)) {
      double difference = number - levels.zeroOf(parameter);
      least = std::min(least, difference);
      most = std::max(most, difference);
      leastNumber = std::min(leastNumber, number);
      mostNumber = std::max(mostNumber, number);
    }
  }
  for (int64_t bits : {4, 8}) {
    int64_t half = int64_t(1) << (bits - 1);
    if (areWhole && least >= -half && most < half) {
      return {bits, false, half};
    }
    if (leastNumber >= 0 && mostNumber < 2 * half) {
      return {bits, true, 0};
    }
    if (leastNumber >= -half && mostNumber < half) {
      return {bits, true, half};
    }
  }
  llvm_unreachable("numbers of 8 bits fit 8 bits");
}

std::vector<char> rowsOf(const Levels &levels, const Storing &storing,
                         const tn::BlockRows &layout) {
  std::vector<char> bytes(levels.columns * layout.rowBytes(), 0);
  Levels::Row row;
  for (int64_t column = 0; column < levels.columns; ++column) {
    levels.read(column, row);
    for (int64_t i = 0; i < levels.depth; ++i) {
      int32_t at = row.parameters[i];
      char *words =
          bytes.data() + column * layout.rowBytes() + 4 * layout.blockWords() * (i / layout.block);
      int64_t inBlock = i % layout.block;
      if (inBlock == 0) {
        float scale = static_cast<float>(levels.scaleOf(at));
        std::memcpy(words, &scale, sizeof(float));
        float zero = static_cast<float>(levels.zeroOf(at) + static_cast<double>(storing.shift));
        if (layout.hasZeroPoints) {
          std::memcpy(words + sizeof(float), &zero, sizeof(float));
        }
      }
      int64_t number = row.numbers[i] + storing.shift;
      number -= storing.hasZeroPoints ? 0 : static_cast<int64_t>(levels.zeroOf(at));
      int64_t bit = inBlock * layout.bits;
      words[4 * layout.headerWords() + bit / 8] |= static_cast<char>(number << (bit % 8));
    }
  }
  return bytes;
}

/// Of a GPU, whose kernel of few rows takes panels of 32 of the depth: whole blocks of these.
std::optional<int64_t> gpuBlockOf(const Levels &levels) {
  constexpr int64_t kPanel = 32;
  int64_t common = boundaries(levels, levels.depth);
  int64_t block = kMaxOfBlock;
  while (block > 0 && common % block != 0) {
    block -= kPanel;
  }
  return block > 0 ? std::optional(block) : std::nullopt;
}

/// Of a GPU: products of 16-bit floats that may have few rows, which the stream of weights bounds.
/// Products that never have so few are multiplied faster by weights as floats.
bool isTakenByGpu(tn::MatmulOp product) {
  constexpr int64_t kFewRowsOfGpu = 16;
  Type element = product.getType().getElementType();
  RankedTensorType matrix = tensorType(product.getB());
  AffineExpr rows =
      tn::elementCount(product.getContext(), ArrayRef(tn::getDims(product.getType())).drop_back());
  if (!(element.isF16() || element.isBF16()) || product.getTransposeA() || !rows ||
      matrix.getRank() != 2 || !matrix.hasStaticShape() || matrix.getNumElements() == 0 ||
      matrix.getNumElements() > kMaxElements || Constants::isConstant(product.getA())) {
    return false;
  }
  tn::SymbolList::Range count = tn::SymbolList(product->getParentOfType<ModuleOp>()).bounds(rows);
  return count.min >= 1 && count.min <= kFewRowsOfGpu;
}

bool isTaken(tn::MatmulOp product) {
  Type element = product.getType().getElementType();
  RankedTensorType matrix = tensorType(product.getB());
  if (product.getTransposeA() || Constants::isConstant(product.getA()) || matrix.getRank() != 2 ||
      !matrix.hasStaticShape() || matrix.getNumElements() == 0 ||
      matrix.getNumElements() > kMaxElements ||
      matrix.getDimSize(product.getTransposeB() ? 0 : 1) == 1) {
    return false;
  }
  if (element.isBF16()) {
    std::optional<int64_t> rows = 1;
    for (AffineExpr dim : ArrayRef(tn::getDims(product.getType())).drop_back()) {
      std::optional<int64_t> size = tn::constantDim(dim);
      rows = rows && size && *size <= kFewRows ? std::optional(*rows * *size) : std::nullopt;
    }
    return rows && *rows <= kFewRows;
  }
  return element.isF32() || element.isF16();
}

struct Candidate {
  tn::MatmulOp product;
  Origin origin;
};

SmallVector<Candidate> candidatesOf(ModuleOp module, bool isGpu) {
  SmallVector<Candidate> candidates;
  int64_t bytes = 0;
  module.walk([&](tn::MatmulOp product) {
    std::optional<Origin> origin = (isGpu ? isTakenByGpu(product) : isTaken(product))
                                       ? Origin::of(product.getB())
                                       : std::optional<Origin>();
    bool isConstant = origin && Constants::isConstant(origin->source.getX()) &&
                      getElementTypeOrSelf(origin->source.getX()).getIntOrFloatBitWidth() == 8 &&
                      tensorType(origin->source.getX()).getNumElements() <= kMaxElements;
    if (isConstant) {
      candidates.push_back({product, *origin});
      bytes += tensorType(product.getB()).getNumElements() * int64_t(sizeof(float));
    }
  });
  return isGpu || bytes > kCached ? candidates : SmallVector<Candidate>();
}

class Rewriter {
public:
  Rewriter(tn::WeightStore &weights, bool isGpu)
      : constants(weights), reader(weights), isGpu(isGpu) {}

  void rewrite(Candidate &candidate) {
    tn::MatmulOp product = candidate.product;
    std::optional<Rows> &rows = made[{product.getB(), product.getTransposeB() ? 1 : 0}];
    rows = rows ? rows : store(candidate);
    if (!rows) {
      return;
    }
    // Each product has its own, which goes into its kernel.
    OpBuilder builder(product);
    Type element = product.getType().getElementType();
    Value matrix = tn::DecodeRowsOp::create(
        builder, product.getLoc(),
        RankedTensorType::get({tensorType(rows->bytes).getDimSize(0), rows->layout.depth}, element),
        rows->bytes, rows->layout.bits, rows->layout.block, rows->layout.hasZeroPoints);
    product.getBMutable().assign(matrix);
    product.setTransposeB(true);
  }

private:
  struct Rows {
    tn::BlockRows layout;
    Value bytes;
  };

  std::optional<Rows> store(Candidate &candidate) {
    std::optional<Levels> levels = reader.read(candidate.product, candidate.origin);
    if (!levels) {
      return std::nullopt;
    }
    Storing storing = storingOf(*levels);
    tn::BlockRows layout{
        .bits = storing.bits, .hasZeroPoints = storing.hasZeroPoints, .depth = levels->depth};
    std::optional<int64_t> block =
        isGpu ? gpuBlockOf(*levels) : blockOf(*levels, layout.elementsOfWord());
    if (!block) {
      return std::nullopt;
    }
    layout.block = *block;
    tn::DequantizeOp source = candidate.origin.source;
    OpBuilder builder(source);
    tn::WeightOp weight = source.getX().getDefiningOp<tn::WeightOp>();
    RankedTensorType type = RankedTensorType::get({levels->columns, layout.rowBytes()},
                                                  builder.getIntegerType(8, /*isSigned=*/false));
    std::string name = (weight ? weight.getId() + ".rows" : llvm::Twine("rows")).str();
    return Rows{layout, constants.make(builder, source.getLoc(), type,
                                       rowsOf(*levels, storing, layout), name, kLowBitPass)};
  }

  Constants constants;
  Reader reader;
  bool isGpu;
  llvm::DenseMap<std::pair<Value, int>, std::optional<Rows>> made;
};

LogicalResult rewriteAll(ModuleOp module, tn::WeightStore &weights, bool isGpu) {
  SmallVector<Candidate> candidates = candidatesOf(module, isGpu);
  Rewriter rewriter(weights, isGpu);
  for (Candidate &candidate : candidates) {
    rewriter.rewrite(candidate);
  }
  // What no such product reads becomes floats.
  return foldConstants(module, weights);
}

} // namespace

LogicalResult lowBitWeights(ModuleOp module, tn::WeightStore &weights) {
  return rewriteAll(module, weights, /*isGpu=*/false);
}

LogicalResult lowBitWeightsOfGpu(ModuleOp module, tn::WeightStore &weights) {
  return rewriteAll(module, weights, /*isGpu=*/true);
}

} // namespace tenon::opt

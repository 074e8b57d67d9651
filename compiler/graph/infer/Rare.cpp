// Shape rules and verifiers of the operations that few models have.
// Relies on infer/Infer.h for the checks of dims and windows.
#include "compiler/graph/CachedRows.h"
#include "compiler/graph/ElementType.h"
#include "compiler/graph/TnRare.h"
#include "compiler/graph/infer/Infer.h"
#include "support/random/GumbelNoise.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tenon::tn;
using namespace tenon::tn::infer;

LogicalResult EncodeOp::verify() {
  if (!llvm::is_contained({"up", "down", "nearest"}, getRound())) {
    return emitOpError("does not know the rounding '") << getRound() << "'";
  }
  if (isa<FloatType>(elementOf(getY())) && !isa<FloatType>(elementOf(getX()))) {
    return emitOpError("makes floats of floats only");
  }
  return checkDims(getLoc(), getY(), dimsOf(getX()), "the encoded tensor");
}

LogicalResult DecodeOp::verify() {
  Type from = elementOf(getX()), to = elementOf(getY());
  bool fits = isa<FloatType>(from) ? isa<FloatType>(to)
                                   : to.getIntOrFloatBitWidth() == 8 &&
                                         to.isUnsignedInteger() == from.isUnsignedInteger();
  if (!fits) {
    return emitOpError("makes floats of floats, and integers of 8 bits of integers");
  }
  return checkDims(getLoc(), getY(), dimsOf(getX()), "the decoded tensor");
}

LogicalResult UnpackBitsOp::verify() {
  RankedTensorType type = typeOf(getY());
  unsigned bits = type.getElementTypeBitWidth();
  if (bits != 4 && bits != 2) {
    return emitOpError("makes elements of 4 or 2 bits");
  }
  int64_t bytes = type.getNumElements() / (8 / bits) + (type.getNumElements() % (8 / bits) != 0);
  if (rankOf(getX()) != 1 || typeOf(getX()).getDimSize(0) != bytes) {
    return emitOpError("needs one list of as many bytes as the elements fill");
  }
  return success();
}

BlockRows DecodeRowsOp::layout() {
  return {.bits = static_cast<int64_t>(getBits()),
          .block = static_cast<int64_t>(getBlock()),
          .hasZeroPoints = getZeroPoints(),
          .depth = typeOf(getMatrix()).getDimSize(1)};
}

LogicalResult DecodeRowsOp::verify() {
  if (rankOf(getRows()) != 2 || rankOf(getMatrix()) != 2 ||
      !isa<FloatType>(elementOf(getMatrix()))) {
    return emitOpError("makes a matrix of floats of rows of bytes");
  }
  if (!layout().isSound()) {
    return emitOpError("needs numbers of 4 or 8 bits and blocks of whole words");
  }
  ArrayRef<int64_t> rows = typeOf(getRows()).getShape();
  if (rows[0] != typeOf(getMatrix()).getDimSize(0) || rows[1] != layout().rowBytes()) {
    return emitOpError("needs ") << typeOf(getMatrix()).getDimSize(0) << " rows of "
                                 << layout().rowBytes() << " bytes";
  }
  return success();
}

LogicalResult RoundBlocksOp::verify() {
  if (rankOf(getX()) == 0 || static_cast<int64_t>(getBlock()) <= 0) {
    return emitOpError("needs rows and blocks of at least one element");
  }
  return success();
}

LogicalResult BitcastOp::verify() {
  // A bool is held in a byte.
  auto width = [](Value value) { return std::max(elementOf(value).getIntOrFloatBitWidth(), 8u); };
  if (width(getX()) != width(getY())) {
    return emitOpError("needs element types of one width");
  }
  return checkDims(getLoc(), getY(), dimsOf(getX()), "the result of a bit cast");
}

LogicalResult HistogramOp::verify() {
  Dims dims = dimsOf(getX());
  // Of 9 bits on there is a bin for each power of two; beyond 20 they are more than a cache holds.
  if (dims.size() != 2 || getBits() < 9 || getBits() > 20) {
    return emitOpError("needs rows of elements, and 9 to 20 bits");
  }
  dims[1] = getAffineConstantExpr(int64_t{1} << getBits(), getContext());
  return checkDims(getLoc(), getCounts(), dims, "the counts of a histogram");
}

LogicalResult TruePositionsOp::verify() {
  if (rankOf(getX()) != 1 || rankOf(getCount()) != 0) {
    return emitOpError("needs a list, and counts in a scalar");
  }
  return checkDims(getLoc(), getPositions(), dimsOf(getX()), "the list of positions");
}

unsigned TakeFirstOp::symbol() {
  return cast<AffineSymbolExpr>(dimsOf(getY()).front()).getPosition();
}

LogicalResult TakeFirstOp::verify() {
  Dims from = dimsOf(getX()), to = dimsOf(getY());
  if (from.empty() || to.empty() || rankOf(getCount()) != 0 ||
      !isa_and_nonnull<AffineSymbolExpr>(to.front())) {
    return emitOpError("needs rows, a scalar that counts them, and a symbol for the count");
  }
  bool isOwn = from.front() && !from.front().isFunctionOfSymbol(symbol());
  if (!isOwn || elementOf(getX()) != elementOf(getY())) {
    return emitOpError("gives rows of its operand, as many as a symbol of its own says");
  }
  from.front() = to.front();
  return checkDims(getLoc(), getY(), from, "the first rows");
}

LogicalResult SelectBoxesOp::verify() {
  Dims boxes = dimsOf(getBoxes()), scores = dimsOf(getScores()), out = dimsOf(getSelected());
  if (boxes.size() != 3 || scores.size() != 3 || out.size() != 3 || constantDim(boxes[2]) != 4 ||
      rankOf(getLimit()) != 0 || rankOf(getOverlap()) != 0 ||
      elementOf(getBoxes()) != elementOf(getScores()) ||
      elementOf(getBoxes()) != elementOf(getOverlap())) {
    return emitOpError("needs boxes [batch, n, 4] and scores [batch, class, n] of one type, and a "
                       "scalar limit and overlap");
  }
  Dims expected = {boxes[0], scores[1], boxes[1]};
  if (failed(checkDims(getLoc(), getScores(), expected, "the scores")) ||
      failed(checkDims(getLoc(), getCandidates(), expected, "the candidates"))) {
    return failure();
  }
  expected[2] = out[2];
  return checkDims(getLoc(), getSelected(), expected, "the selection");
}

LogicalResult MaxPoolIndexOp::inferReturnTypes(MLIRContext *context, infer::Location location,
                                               Adaptor adaptor, Types &types) {
  Dims dims = dimsOf(adaptor.getX());
  Dims out = dimsOf(adaptor.getLargest());
  if (dims.size() < 3 || dims.size() > 5 || out.size() != dims.size() ||
      failed(checkSameElement(location, adaptor.getX(), adaptor.getLargest())) ||
      failed(makeWindows(location, dims.size() - 2, adaptor.getKernel(), adaptor.getStrides(),
                         adaptor.getPads(), adaptor.getDilations()))) {
    return emitOptionalError(location, "the largest elements ", text(out),
                             " are not those of windows over ", text(dims));
  }
  return append(location, out, IntegerType::get(context, 64), types);
}

namespace {

/// How many gates a cell has, and activations; none if there is no such cell.
struct CellParts {
  int64_t gates, activations;
};
std::optional<CellParts> cellParts(StringRef cell) {
  return cell == "rnn"    ? std::optional<CellParts>({1, 1})
         : cell == "gru"  ? std::optional<CellParts>({3, 2})
         : cell == "lstm" ? std::optional<CellParts>({4, 3})
                          : std::nullopt;
}

/// Error unless an operand or result that is there has the element type of `like` and these dims.
LogicalResult checkPart(Value part, Value like, ArrayRef<AffineExpr> dims, StringRef what) {
  return success(!part || (succeeded(checkSameElement(like.getLoc(), like, part)) &&
                           succeeded(checkDims(like.getLoc(), part, dims, what))));
}

} // namespace

const CellActivation *tenon::tn::findCellActivation(StringRef name) {
  using Parameter = CellActivation::Parameter;
  static constexpr CellActivation kAll[] = {
      {"sigmoid"},
      {"tanh"},
      {"relu"},
      {"softsign"},
      {"softplus"},
      {"elu", Parameter::usual, Parameter::none, 1},
      {"leakyrelu", Parameter::usual, Parameter::none, 0.01f},
      {"thresholdedrelu", Parameter::usual, Parameter::none, 1},
      {"hardsigmoid", Parameter::usual, Parameter::usual, 0.2f, 0.5},
      {"scaledtanh", Parameter::stated, Parameter::stated},
      {"affine", Parameter::stated, Parameter::stated},
  };
  const CellActivation *found = llvm::find_if(
      kAll, [&](const CellActivation &activation) { return activation.name == name; });
  return found == std::end(kAll) ? nullptr : found;
}

LogicalResult RecurrenceOp::verify() {
  std::optional<CellParts> parts = cellParts(getCell());
  bool knowsAll = llvm::all_of(getActivations().getAsValueRange<StringAttr>(), findCellActivation);
  bool hasParameters =
      getParameters().empty() || getParameters().size() == 2 * getActivations().size();
  bool clips = !getClip() || getClip()->convertToDouble() > 0;
  bool isLstm = getCell() == "lstm";
  if (!parts || !knowsAll || parts->activations != int64_t(getActivations().size()) ||
      isLstm != bool(getFirstC()) || isLstm != bool(getLastC()) || (getPeephole() && !isLstm) ||
      !hasParameters || !clips || (getInputForget() && !isLstm) ||
      (getLinearBeforeReset() && getCell() != "gru") ||
      (getResetBias() && !getLinearBeforeReset())) {
    return emitOpError("needs the cell rnn, gru or lstm, its activations, and the operands it has");
  }
  Dims input = dimsOf(getInput()), weights = dimsOf(getWeights());
  std::optional<int64_t> hidden = weights.size() == 2 ? constantDim(weights[0]) : std::nullopt;
  if (input.size() != 3 || !hidden || *hidden < 1) {
    return emitOpError("needs an input [seq, batch, gates * hidden] and weights of known size");
  }
  AffineExpr width = weights[0], all = weights[0] * parts->gates;
  Dims state = {input[1], width};
  return success(
      succeeded(checkDims(getLoc(), getInput(), {input[0], input[1], all}, "the input")) &&
      succeeded(checkPart(getWeights(), getInput(), {width, all}, "the weights")) &&
      succeeded(checkPart(getFirstH(), getInput(), state, "the first state")) &&
      succeeded(checkPart(getFirstC(), getInput(), state, "the first cell")) &&
      succeeded(checkPart(getResetBias(), getInput(), {width}, "the bias")) &&
      succeeded(checkPart(getPeephole(), getInput(), {width * 3}, "the peephole")) &&
      (!getLengths() || succeeded(checkDims(getLoc(), getLengths(), {input[1]}, "the lengths"))) &&
      succeeded(checkPart(getStates(), getInput(), {input[0], input[1], width}, "the states")) &&
      succeeded(checkPart(getLastH(), getInput(), state, "the last state")) &&
      succeeded(checkPart(getLastC(), getInput(), state, "the last cell")));
}

/// Elements of a cache for a row of so many numbers.
static AffineExpr rowOf(Value cache, AffineExpr width) {
  int64_t extra = CachedRows::extra(cache.getType());
  return addDims(width, getAffineConstantExpr(extra, width.getContext()));
}

LogicalResult PagedWriteOp::inferReturnTypes(MLIRContext *, infer::Location location,
                                             Adaptor adaptor, Types &types) {
  Dims cache = dimsOf(adaptor.getCache()), x = dimsOf(adaptor.getX());
  if (cache.size() != 4 || x.size() != 3) {
    return emitOptionalError(location, "pages have rank 4 and what is written to them rank 3, not ",
                             text(cache), " and ", text(x));
  }
  AffineExpr width = rowOf(adaptor.getCache(), x[2]);
  if ((!CachedRows::areCodes(adaptor.getCache().getType()) &&
       failed(checkSameElement(location, adaptor.getCache(), adaptor.getX()))) ||
      failed(checkSameDim(location, cache[1], x[1], "heads of pages and rows")) ||
      failed(checkSameDim(location, cache[3], width, "width of pages and rows")) ||
      failed(checkDims(location, adaptor.getSlots(), {x[0]}, "slots"))) {
    return failure();
  }
  types.push_back(adaptor.getCache().getType());
  return success();
}

LogicalResult PagedAttentionOp::inferReturnTypes(MLIRContext *context, infer::Location location,
                                                 Adaptor adaptor, Types &types) {
  Dims q = dimsOf(adaptor.getQ()), keys = dimsOf(adaptor.getKeys());
  Dims values = dimsOf(adaptor.getValues()), pages = dimsOf(adaptor.getPages());
  if (q.size() != 3 || keys.size() != 4 || values.size() != 4 || pages.size() != 2) {
    return emitOptionalError(location,
                             "queries have rank 3, pages rank 4 and tables of pages rank "
                             "2, not ",
                             text(q), ", ", text(keys), ", ", text(values), " and ", text(pages));
  }
  AffineExpr starts = addDims(pages[0], getAffineConstantExpr(1, pages[0].getContext()));
  bool areCodes = CachedRows::areCodes(adaptor.getKeys().getType());
  if ((!areCodes && failed(checkSameElement(location, adaptor.getQ(), adaptor.getKeys()))) ||
      failed(checkSameElement(location, adaptor.getKeys(), adaptor.getValues())) ||
      failed(checkDims(location, adaptor.getValues(), {keys[0], keys[1], keys[2], values[3]},
                       "values")) ||
      failed(checkSameDim(location, rowOf(adaptor.getKeys(), q[2]), keys[3],
                          "width of queries and keys")) ||
      failed(checkDims(location, adaptor.getStarts(), {starts}, "starts")) ||
      failed(checkDims(location, adaptor.getLengths(), {pages[0]}, "lengths"))) {
    return failure();
  }
  std::optional<int64_t> heads = constantDim(q[1]), shared = constantDim(keys[1]);
  if (!heads || !shared || *shared == 0 || *heads % *shared != 0) {
    return emitOptionalError(location, text(keys[1]), " heads of keys do not divide ", text(q[1]),
                             " heads of queries");
  }
  if (!constantDim(keys[2]) || *constantDim(keys[2]) < 1 || adaptor.getWindow() < 0) {
    return emitOptionalError(location, "a page has a constant number of positions, and a window is "
                                       "not negative");
  }
  AffineExpr extra =
      getAffineConstantExpr(-CachedRows::extra(adaptor.getValues().getType()), context);
  return append(location, {q[0], q[1], addDims(values[3], extra)}, elementOf(adaptor.getQ()),
                types);
}

LogicalResult SampleOp::inferReturnTypes(MLIRContext *context, infer::Location location,
                                         Adaptor adaptor, Types &types) {
  constexpr int64_t kParameters = 3;
  Dims logits = dimsOf(adaptor.getLogits());
  if (logits.size() != 2) {
    return emitOptionalError(location, "logits have rank 2, not ", text(logits));
  }
  std::optional<int64_t> vocabulary = constantDim(logits[1]);
  if (!vocabulary || *vocabulary < 1 || *vocabulary > kMostShares) {
    return emitOptionalError(location, "a row has from 1 to ", kMostShares,
                             " logits, a constant number of them, not ", text(logits));
  }
  Dims parameters = {logits[0], getAffineConstantExpr(kParameters, context)};
  if (failed(checkDims(location, adaptor.getNumbers(), parameters, "numbers")) ||
      failed(checkDims(location, adaptor.getIntegers(), parameters, "integers"))) {
    return failure();
  }
  Builder builder(context);
  return success(succeeded(append(location, {logits[0]}, builder.getI64Type(), types)) &&
                 succeeded(append(location, {logits[0]}, builder.getF32Type(), types)));
}

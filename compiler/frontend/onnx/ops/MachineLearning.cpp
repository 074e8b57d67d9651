// Feature operators of ai.onnx.ml on numbers, and counts of n-grams.
// Relies on the dictionaries being attributes, so that they are constants.
#include "compiler/frontend/onnx/NodeContext.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace tenon::onnx {
namespace {

void binarizer(NodeContext &c) {
  Value x = c.value(0);
  Value isAbove = c.compare(x, tn::Predicate::gt, c.scalarLike(c.real("threshold", 0), x));
  c.setOutput(0, c.cast(isAbove, c.element(0)));
}

/// (x - offset) * scale, one of each for all columns or for each.
void scaler(NodeContext &c) {
  Value x = c.cast(c.value(0), c.builder().getF32Type());
  const Attribute *offset = c.attribute("offset", AttributeType::Floats);
  const Attribute *scale = c.attribute("scale", AttributeType::Floats);
  for (const Attribute *each : {offset, scale}) {
    if (!each || each->floats.empty()) {
      continue;
    }
    int64_t count = static_cast<int64_t>(each->floats.size());
    if (count != 1 && (c.rank(0) == 0 || tn::constantDim(c.dims(0).back()) != count)) {
      return c.error(ErrorId::OnnxBadAttribute,
                     "attribute '" + StringRef(each->name) + "' does not have a value per column");
    }
    SmallVector<double> values(each->floats.begin(), each->floats.end());
    Value row = c.realConstant(values, {count}, c.builder().getF32Type());
    x = each == offset ? c.sub(x, row) : c.mul(x, row);
  }
  c.setOutput(0, x);
}

void arrayFeatureExtractor(NodeContext &c) {
  int64_t rank = c.rank(0);
  AffineExpr count = tn::elementCount(c.builder().getContext(), c.dims(1));
  if (rank == 0 || !count) {
    return c.error(ErrorId::OnnxBadNode, "its input has no last dimension");
  }
  Value indices = c.reshape(c.value(1), {count});
  Value y = c.make<tn::GatherOp>(c.value(0), indices, rank - 1);
  c.setOutput(0, rank == 1 ? c.reshape(y, {c.constantSize(1), count}) : y);
}

/// Each row by its largest element, its sum of magnitudes, or its length; rows of zeros stay.
void normalizer(NodeContext &c) {
  std::string norm = c.choice("norm", {"MAX", "L1", "L2"});
  int64_t last = c.rank(0) - 1;
  if (last < 0) {
    return c.error(ErrorId::OnnxBadNode, "its input has no last dimension");
  }
  Value x = c.cast(c.value(0), c.builder().getF32Type());
  Value size = norm == "MAX" ? c.reduce(tn::ReduceKind::max, x, {last}, true)
               : norm == "L1"
                   ? c.reduce(tn::ReduceKind::sum, c.unary<tn::AbsOp>(x), {last}, true)
                   : c.unary<tn::SqrtOp>(c.reduce(tn::ReduceKind::sum, c.mul(x, x), {last}, true));
  Value isZero = c.compare(size, tn::Predicate::eq, c.scalarLike(0, size));
  c.setOutput(0, c.div(x, c.select(isZero, c.scalarLike(1, size), size)));
}

/// What equals the replaced value becomes the imputed one, one for all columns or for each.
void imputer(NodeContext &c) {
  Value x = c.value(0);
  bool isReal = isa<FloatType>(c.element(0));
  const Attribute *reals = c.attribute("imputed_value_floats", AttributeType::Floats);
  SmallVector<int64_t> integers = c.integerList("imputed_value_int64s");
  SmallVector<double> values;
  if (isReal && reals) {
    values.assign(reals->floats.begin(), reals->floats.end());
  }
  double replaced = c.real("replaced_value_float", 0);
  int64_t replacedInteger = c.integer("replaced_value_int64", 0);
  int64_t count = static_cast<int64_t>(isReal ? values.size() : integers.size());
  if (count == 0 ||
      (count != 1 && (c.rank(0) == 0 || tn::constantDim(c.dims(0).back()) != count))) {
    return c.error(ErrorId::OnnxBadAttribute, "it does not have one imputed value per column");
  }
  Value row = isReal ? c.realConstant(values, {count}, c.element(0))
                     : c.integerConstant(integers, {count}, c.element(0));
  Value gone = isReal ? c.scalar(replaced, c.element(0))
                      : c.integerConstant({replacedInteger}, {}, c.element(0));
  Value isGone = std::isnan(replaced) && isReal ? c.compare(x, tn::Predicate::ne, x)
                                                : c.compare(x, tn::Predicate::eq, gone);
  c.setOutput(0, c.select(isGone, row, x));
}

/// x [..] against keys as [.., keys]: which key each element is.
Value matched(NodeContext &c, Value keys, int64_t count) {
  tn::Dims apart = c.dims(0);
  apart.push_back(c.constantSize(1));
  Value x = c.reshape(c.value(0), apart);
  tn::Dims all(apart.size(), c.constantSize(1));
  all.back() = c.constantSize(count);
  return c.compare(x, tn::Predicate::eq, c.reshape(keys, all));
}

/// One of the numbers lists of LabelEncoder; null if it is not there.
Value numbersOf(NodeContext &c, StringRef side, int64_t &count) {
  SmallVector<int64_t> integers = c.integerList((side + "_int64s").str());
  SmallVector<double> reals = c.numberList((side + "_floats").str());
  count = static_cast<int64_t>(integers.empty() ? reals.size() : integers.size());
  if (count == 0) {
    return Value();
  }
  return integers.empty() ? c.realConstant(reals, {count}, c.builder().getF32Type())
                          : c.integerConstant(integers, {count}, c.builder().getI64Type());
}

void labelEncoder(NodeContext &c) {
  int64_t count = 0, values = 0;
  for (StringRef unused : {"default_string", "default_int64", "default_float"}) {
    c.ignore(unused);
  }
  Value keys = numbersOf(c, "keys", count), table = numbersOf(c, "values", values);
  if (!keys || !table) {
    return c.gap("labels that are strings or tensors are not supported",
                 "use keys and values that are lists of int64 or float");
  }
  if (count != values) {
    return c.error(ErrorId::OnnxBadAttribute, "it does not have a value per key");
  }
  Type element = getElementTypeOrSelf(table);
  Value otherwise = element.isF32()
                        ? c.scalar(c.real("default_float", -0.0), element)
                        : c.integerConstant({c.integer("default_int64", -1)}, {}, element);
  int64_t last = c.rank(0);
  Value match = c.cast(matched(c, c.cast(keys, c.element(0)), count), c.builder().getI32Type());
  Value place = c.make<tn::ArgReduceOp>(match, last, false, true, false);
  Value isKnown =
      c.cast(c.reduce(tn::ReduceKind::max, match, {last}, false), c.builder().getI1Type());
  c.setOutput(0, c.select(isKnown, c.make<tn::GatherOp>(table, place, int64_t{0}), otherwise));
}

/// A column for each category. Elements of none are zeros everywhere.
void oneHotEncoder(NodeContext &c) {
  SmallVector<int64_t> categories = c.integerList("cats_int64s");
  if (categories.empty() || c.hasAttribute("cats_strings") || c.integer("zeros", 1) == 0) {
    return c.gap("categories that are strings, and unknown ones as errors, are not supported",
                 "use cats_int64s and zeros = 1");
  }
  int64_t count = static_cast<int64_t>(categories.size());
  Value keys = c.integerConstant(categories, {count}, c.builder().getI64Type());
  Value match = matched(c, c.cast(keys, c.element(0)), count);
  c.setOutput(0, c.cast(match, c.builder().getF32Type()));
}

/// The columns of all inputs, as floats.
void featureVectorizer(NodeContext &c) {
  SmallVector<int64_t> widths = c.integerList("inputdimensions");
  SmallVector<Value> parts;
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    tn::Dims dims = c.dims(i);
    if (dims.size() == 1) {
      dims.push_back(c.constantSize(1));
    }
    bool fits = dims.size() == 2 &&
                (widths.empty() || (i < widths.size() && tn::constantDim(dims[1]) == widths[i]));
    if (!fits) {
      return c.gap("inputs of other widths than in inputdimensions are not supported",
                   "correct inputdimensions");
    }
    parts.push_back(c.reshape(c.cast(c.value(i), c.builder().getF32Type()), dims));
  }
  c.setOutput(0, c.failed() ? Value() : c.concat(parts, 1));
}

//===--- TfIdfVectorizer ---===//

constexpr int64_t kLongestGram = 64;

/// The n-grams of one length, and the columns of the result that they count in.
struct Grams {
  int64_t length = 0;
  SmallVector<int64_t> items; ///< one gram after the other
  SmallVector<int64_t> columns;
};

struct Vectorizer {
  std::vector<Grams> grams;
  int64_t width = 0;
  int64_t mostSkips = 0;
  SmallVector<double> weights;
  bool counts = true; ///< else whether a gram occurs
};

/// The lists of n-grams, from the pool; false if the attributes contradict each other.
bool readGrams(ArrayRef<int64_t> pool, ArrayRef<int64_t> starts, ArrayRef<int64_t> columns,
               int64_t least, int64_t most, std::vector<Grams> &grams) {
  size_t number = 0;
  for (auto [i, start] : llvm::enumerate(starts)) {
    int64_t length = static_cast<int64_t>(i) + 1;
    int64_t end = i + 1 < starts.size() ? starts[i + 1] : static_cast<int64_t>(pool.size());
    if (start < 0 || end < start || end > static_cast<int64_t>(pool.size()) ||
        (end - start) % length != 0) {
      return false;
    }
    Grams own{length, {}, {}};
    for (int64_t at = start; at < end; at += length, ++number) {
      if (number >= columns.size()) {
        return false;
      }
      llvm::append_range(own.items, pool.slice(at, length));
      own.columns.push_back(columns[number]);
    }
    if (length >= least && length <= most && !own.columns.empty()) {
      grams.push_back(std::move(own));
    }
  }
  return true;
}

std::optional<Vectorizer> readVectorizer(NodeContext &c) {
  Vectorizer v;
  std::string mode = c.text("mode", "");
  SmallVector<int64_t> columns = c.integerList("ngram_indexes");
  int64_t least = c.integer("min_gram_length", 1), most = c.integer("max_gram_length", 1);
  v.mostSkips = c.integer("max_skip_count", 0);
  if (c.hasAttribute("pool_strings")) {
    c.gap("n-grams of strings are not supported", "use numbers instead of words");
    return std::nullopt;
  }
  bool isSound = !columns.empty() && least >= 1 && most >= least && v.mostSkips >= 0 &&
                 v.mostSkips <= 1024 && (mode == "TF" || mode == "IDF" || mode == "TFIDF") &&
                 readGrams(c.integerList("pool_int64s"), c.integerList("ngram_counts"), columns,
                           least, most, v.grams);
  for (int64_t column : columns) {
    isSound &= column >= 0 && column < (int64_t{1} << 24);
    v.width = std::max(v.width, column + 1);
  }
  const Attribute *weights = c.attribute("weights", AttributeType::Floats);
  if (weights && mode != "TF") {
    v.weights.assign(weights->floats.begin(), weights->floats.end());
    isSound &= static_cast<int64_t>(v.weights.size()) == v.width || v.weights.empty();
  }
  v.counts = mode != "IDF";
  if (!isSound) {
    c.error(ErrorId::OnnxBadAttribute, "its pool, counts, indexes or weights do not fit");
  } else if (!v.grams.empty() && v.grams.back().length > kLongestGram) {
    c.gap("n-grams of more than 64 items are not supported", "use shorter ones");
  }
  return c.failed() ? std::nullopt : std::optional(v);
}

/// How often each gram occurs in rows [n, size] with `step` from item to item, [n, grams].
Value countGrams(NodeContext &c, Value rows, const Grams &grams, int64_t step) {
  tn::Dims dims = tn::getDims(rows.getType());
  int64_t number = static_cast<int64_t>(grams.columns.size());
  AffineExpr one = c.constantSize(1), windows = dims[1];
  // After the end of a row stands an item that no gram has, so that a window begins at each item.
  std::set<int64_t> items(grams.items.begin(), grams.items.end());
  int64_t nowhere = 0;
  while (items.count(nowhere) != 0) {
    ++nowhere;
  }
  rows = c.make<tn::PadOp>(rows, c.scalarLike(static_cast<double>(nowhere), rows),
                           ArrayRef<int64_t>{0, 0}, ArrayRef<int64_t>{0, (grams.length - 1) * step},
                           tn::PadMode::constant);
  Value matches;
  for (int64_t item = 0; item < grams.length; ++item) {
    SmallVector<int64_t> wanted;
    for (int64_t gram = 0; gram < number; ++gram) {
      wanted.push_back(grams.items[gram * grams.length + item]);
    }
    Value part = c.sliceAxis(rows, 1, c.constantSize(item * step), windows);
    Value isItem = c.compare(c.reshape(part, {dims[0], windows, one}), tn::Predicate::eq,
                             c.integerConstant(wanted, {1, 1, number}, getElementTypeOrSelf(rows)));
    matches = matches ? c.make<tn::AndOp>(matches, isItem) : isItem;
  }
  return c.reduce(tn::ReduceKind::sum, c.cast(matches, c.builder().getF32Type()), {1}, false);
}

void tfIdfVectorizer(NodeContext &c) {
  std::optional<Vectorizer> v = readVectorizer(c);
  if (!v) {
    return;
  }
  int64_t rank = c.rank(0);
  tn::Dims dims = c.dims(0);
  if (rank < 1 || rank > 2 || !isa<IntegerType>(c.element(0))) {
    return c.gap("only one or two dimensions of integers are supported", "reshape the input");
  }
  AffineExpr count = rank == 2 ? dims[0] : c.constantSize(1);
  Value rows = c.cast(c.value(0), c.builder().getI64Type());
  rows = c.reshape(rows, {count, dims.back()});
  Type real = c.builder().getF32Type();
  Value y = c.broadcast(c.scalar(0, real), {count, c.constantSize(v->width)});
  for (const Grams &grams : v->grams) {
    Value total;
    // A single item is the same for each skip.
    for (int64_t skip = 0; rows && skip <= (grams.length == 1 ? 0 : v->mostSkips); ++skip) {
      Value counted = countGrams(c, rows, grams, skip + 1);
      total = total ? c.add(total, counted) : counted;
    }
    int64_t number = static_cast<int64_t>(grams.columns.size());
    Value columns = c.integerConstant(grams.columns, {1, number}, c.builder().getI64Type());
    y = c.make<tn::ScatterElementsOp>(y, c.broadcast(columns, {count, c.constantSize(number)}),
                                      total, int64_t{1}, tn::ScatterKind::add);
  }
  if (!v->counts) {
    y = c.cast(c.compare(y, tn::Predicate::gt, c.scalarLike(0, y)), real);
  }
  if (!v->weights.empty()) {
    y = c.mul(y, c.realConstant(v->weights, {1, v->width}, real));
  }
  c.setOutput(0, rank == 1 ? c.reshape(y, {c.constantSize(v->width)}) : y);
}

constexpr Attributes kImputer = {{"imputed_value_floats", kFloats},
                                 {"imputed_value_int64s", kInts},
                                 {"replaced_value_float", kFloat},
                                 {"replaced_value_int64", kInt}};
constexpr Attributes kLabelEncoder = {
    {"default_float", kFloat},      {"default_int64", kInt},      {"default_string", kString},
    {"default_tensor", kTensor, 4}, {"keys_floats", kFloats},     {"keys_int64s", kInts},
    {"keys_strings", kStrings},     {"keys_tensor", kTensor, 4},  {"values_floats", kFloats},
    {"values_int64s", kInts},       {"values_strings", kStrings}, {"values_tensor", kTensor, 4}};
constexpr Attributes kOneHotEncoder = {
    {"cats_int64s", kInts}, {"cats_strings", kStrings}, {"zeros", kInt}};

constexpr OpRow kMlOpRows[] = {
    {"ArrayFeatureExtractor", 1, 2, 2, 1, arrayFeatureExtractor, {}, "ai.onnx.ml"},
    {"Binarizer", 1, 1, 1, 1, binarizer, {{"threshold", kFloat}}, "ai.onnx.ml"},
    {"FeatureVectorizer",
     1,
     1,
     kMany,
     1,
     featureVectorizer,
     {{"inputdimensions", kInts}},
     "ai.onnx.ml"},
    {"Imputer", 1, 1, 1, 1, imputer, kImputer, "ai.onnx.ml"},
    {"LabelEncoder", 2, 1, 1, 1, labelEncoder, kLabelEncoder, "ai.onnx.ml"},
    {"Normalizer", 1, 1, 1, 1, normalizer, {{"norm", kString}}, "ai.onnx.ml"},
    {"OneHotEncoder", 1, 1, 1, 1, oneHotEncoder, kOneHotEncoder, "ai.onnx.ml"},
    {"Scaler", 1, 1, 1, 1, scaler, {{"offset", kFloats}, {"scale", kFloats}}, "ai.onnx.ml"},
    {"TfIdfVectorizer",
     9,
     1,
     1,
     1,
     tfIdfVectorizer,
     {needs({"max_gram_length", kInt}),
      needs({"max_skip_count", kInt}),
      needs({"min_gram_length", kInt}),
      needs({"mode", kString}),
      needs({"ngram_counts", kInts}),
      needs({"ngram_indexes", kInts}),
      {"pool_int64s", kInts},
      {"pool_strings", kStrings},
      {"weights", kFloats}}},
};

} // namespace

ArrayRef<OpRow> mlRows() { return kMlOpRows; }

} // namespace tenon::onnx

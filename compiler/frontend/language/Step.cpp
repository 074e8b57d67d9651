// Builds the module of a language model: one step of a decoder over the tokens that are new. Relies
// on the table of families for what differs.
#include "compiler/frontend/language/Language.h"

#include "compiler/frontend/common/AttentionScores.h"
#include "compiler/frontend/language/Folder.h"
#include "compiler/frontend/language/Text.h"
#include "compiler/frontend/language/Weights.h"
#include "compiler/graph/DimText.h"
#include "compiler/graph/State.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"

#include <cmath>

using namespace mlir;

namespace tenon::language {
namespace {

using frontend::ImportResult;

/// Tokens of one run at most, unless the user says otherwise.
constexpr int64_t kMostTokens = 512;
/// Positions of a session, unless the user says otherwise.
constexpr int64_t kPositions = 2048;

class Step;

/// Emits the operations of one part of the model, such as a layer's attention.
class Emitter : public frontend::Emitter {
public:
  Emitter(Step &owner, std::string name);

  void gap(const Twine &why, const Twine &workaround) override;
  void error(ErrorId id, const Twine &what) override;
  std::string label() const override { return name; }

private:
  Step &step;
  std::string name;
};

class Step : public frontend::ModuleBuilder {
public:
  Step(const Model &theModel, const frontend::ImportOptions &theOptions, MLIRContext &owner,
       tn::WeightStore &theStore)
      : ModuleBuilder(owner, theStore), model(theModel), options(theOptions),
        weights(theModel, theStore) {}

  Result<ImportResult> run();

  const Model &model;
  std::vector<frontend::Gap> gaps;
  Status failure;

private:
  Status makeInputs();
  Result<AffineExpr> sizeOf(llvm::StringRef input, int64_t most);
  Value tableOf(Emitter &c, double (*function)(double), double sign);
  void prepare();
  Value layer(int64_t index, Value x);
  Value attention(int64_t index, Value x);
  Value projected(Emitter &c, Value x, std::string_view part, int64_t heads, int64_t headWidth);
  Value turned(Emitter &c, Value x, int64_t heads);
  Value cached(Emitter &c, std::string_view kind, int64_t index, Value x);
  Value norm(Emitter &c, Value x, std::string_view name, int64_t size);
  Value product(Emitter &c, Value x, std::string_view name, int64_t outputs, int64_t inputs);

  const frontend::ImportOptions &options;
  Weights weights;
  AffineExpr tokens, rows, seen;
  int64_t positions = 0;
  Value tokenIds, start, rowNumbers, seenPositions;
  Value places;       ///< of the tokens, [tokens]
  Value cosine, sine; ///< [tokens, 1, turned], the last dim in pairs
  Value mask;
  std::map<std::string, BlockArgument> caches;
  std::vector<std::pair<std::string, Value>> states; ///< an input, and what replaces it
};

Emitter::Emitter(Step &owner, std::string newName)
    : frontend::Emitter(owner, NameLoc::get(owner.builder.getStringAttr(newName))), step(owner),
      name(std::move(newName)) {}

void Emitter::gap(const Twine &why, const Twine &workaround) {
  hasFailed = true;
  step.gaps.push_back({.opType = name,
                       .domain = "gguf",
                       .node = name,
                       .source = {},
                       .dtype = {},
                       .why = why.str(),
                       .workaround = workaround.str()});
}

void Emitter::error(ErrorId id, const Twine &what) {
  hasFailed = true;
  if (step.failure.isOk()) {
    step.failure = Status::error(id, what.str(), step.model.remedy());
  }
}

//===--- Inputs ---===//

/// The size of an input of one dim.
Result<AffineExpr> Step::sizeOf(StringRef input, int64_t most) {
  int64_t least = 1;
  bool isDeclared = false;
  for (const frontend::ShapeOverride &shape : options.shapes) {
    if (StringRef(shape.input) != input) {
      continue;
    }
    if (shape.dims.size() != 1) {
      return Status::error(
          ErrorId::OnnxBadOverride,
          strCat("option for input '", std::string_view(input), "': the input has one dimension"),
          "'tenon inspect MODEL' lists the inputs with their dimensions");
    }
    const frontend::DimOverride &dim = shape.dims.front();
    if (dim.kind == frontend::DimOverride::Kind::Constant) {
      return symbols.constant(dim.min);
    }
    if (dim.kind == frontend::DimOverride::Kind::Range) {
      least = dim.min;
      most = dim.max;
      isDeclared = true;
    }
  }
  return symbols.get(input, least, most, isDeclared);
}

Status Step::makeInputs() {
  positions = std::min(model.context, kPositions);
  for (const frontend::ShapeOverride &shape : options.shapes) {
    if (shape.input == "context" && shape.dims.size() == 1 &&
        shape.dims.front().kind != frontend::DimOverride::Kind::Keep) {
      positions = std::max(shape.dims.front().min, shape.dims.front().max);
    }
  }
  if (positions > model.context) {
    return Status::error(ErrorId::OnnxBadOverride,
                         strCat("option for input 'context': the model was trained for ",
                                model.context, " positions, not ", positions),
                         strCat("ask for at most ", model.context));
  }
  TENON_ASSIGN(tokens, sizeOf("tokens", std::min(positions, kMostTokens)));
  TENON_ASSIGN(rows, sizeOf("rows", std::min(positions, kMostTokens)));
  TENON_ASSIGN(seen, sizeOf("context", positions));
  Type index = builder.getI64Type();
  tokenIds = addInput("tokens", {tokens}, index);
  start = addInput("start", {symbols.constant(1)}, index);
  rowNumbers = addInput("rows", {rows}, index);
  seenPositions = addInput("context", {seen}, index);
  for (int64_t i = 0; i < model.layers; ++i) {
    for (auto [kind, width] : {std::pair("keys", model.keyWidth), {"values", model.valueWidth}}) {
      std::string name = strCat(kind, '.', i);
      Value cache = addInput(
          name,
          {symbols.constant(positions), symbols.constant(model.keyHeads), symbols.constant(width)},
          builder.getF32Type());
      caches[name] = cast<BlockArgument>(cache);
    }
  }
  return Status::ok();
}

/// A function of the angle of each position and pair, where the tokens stand: of both elements of
/// a pair, the first one's with a sign.
Value Step::tableOf(Emitter &c, double (*function)(double), double sign) {
  bool isPairs = model.rope == Rope::Pairs;
  int64_t half = model.turned / 2;
  std::vector<double> table(positions * model.turned);
  for (int64_t position = 0; position < positions; ++position) {
    for (int64_t pair = 0; pair < half; ++pair) {
      double frequency = std::pow(model.ropeBase, -2.0 * static_cast<double>(pair) /
                                                      static_cast<double>(model.turned));
      double value = function(static_cast<double>(position) * frequency);
      int64_t row = position * model.turned;
      table[row + (isPairs ? 2 * pair : pair)] = sign * value;
      table[row + (isPairs ? 2 * pair + 1 : half + pair)] = value;
    }
  }
  Value values = c.realConstant(table, {positions, model.turned}, builder.getF32Type());
  values = c.make<tn::GatherOp>(values, places, int64_t{0});
  AffineExpr one = c.constantSize(1), two = c.constantSize(2), pairs = c.constantSize(half);
  return c.reshape(values,
                   isPairs ? tn::Dims{tokens, one, pairs, two} : tn::Dims{tokens, one, two, pairs});
}

/// What all layers share.
void Step::prepare() {
  Emitter c(*this, "positions");
  places = c.add(c.positions(tokens), start);
  cosine = tableOf(c, std::cos, 1);
  sine = tableOf(c, std::sin, -1);
  Value keys = c.alongAxis(seenPositions, 3, 4);
  Value queries = c.alongAxis(places, 2, 4);
  mask = frontend::additive(c, c.compare(keys, tn::Predicate::le, queries), builder.getF32Type());
}

//===--- Parts of a layer ---===//

Value Step::norm(Emitter &c, Value x, std::string_view name, int64_t size) {
  Value scale = weights.get(c, name, {size});
  int64_t rank = static_cast<int64_t>(tn::getDims(x.getType()).size());
  return scale ? c.make<tn::RmsNormOp>(x, scale, rank - 1, llvm::APFloat(model.epsilon)) : Value();
}

Value Step::product(Emitter &c, Value x, std::string_view name, int64_t outputs, int64_t inputs) {
  Value matrix = weights.get(c, strCat(name, ".weight"), {outputs, inputs});
  Value y = x && matrix ? c.make<tn::MatmulOp>(x, matrix, false, true) : Value();
  Value bias = weights.get(c, strCat(name, ".bias"), {outputs}, /*isOptional=*/true);
  return y && bias ? c.add(y, bias) : y;
}

/// [tokens, heads, head width]
Value Step::projected(Emitter &c, Value x, std::string_view part, int64_t heads,
                      int64_t headWidth) {
  Value y = product(c, x, part, heads * headWidth, model.width);
  return y ? c.reshape(y, {tokens, c.constantSize(heads), c.constantSize(headWidth)}) : y;
}

/// Rotary embeddings of the first elements of each head: x * cosine + swapped x * sine, where the
/// sine has the signs. Pairs lie along a dim of two of their own, so that swapping is one slice.
Value Step::turned(Emitter &c, Value x, int64_t heads) {
  if (!x || c.failed()) {
    return Value();
  }
  bool isPairs = model.rope == Rope::Pairs;
  AffineExpr count = c.constantSize(heads), half = c.constantSize(model.turned / 2);
  AffineExpr two = c.constantSize(2), whole = c.constantSize(model.turned);
  tn::Dims pairs =
      isPairs ? tn::Dims{tokens, count, half, two} : tn::Dims{tokens, count, two, half};
  Value part = model.turned == model.keyWidth ? x : c.sliceAxis(x, 2, c.constantSize(0), whole);
  part = c.reshape(part, pairs);
  SmallVector<AffineExpr> starts(pairs.size(), c.constantSize(0));
  SmallVector<int64_t> steps(pairs.size(), 1);
  size_t axis = isPairs ? 3 : 2;
  starts[axis] = c.constantSize(1);
  steps[axis] = -1;
  Value swapped = c.makeTyped<tn::SliceOp>(cast<RankedTensorType>(part.getType()), part,
                                           tn::symbolMap(starts, &context), steps);
  Value y = c.add(c.mul(part, cosine), c.mul(swapped, sine));
  y = c.reshape(y, {tokens, count, whole});
  if (model.turned == model.keyWidth) {
    return y;
  }
  Value rest = c.sliceAxis(x, 2, whole, c.constantSize(model.keyWidth - model.turned));
  return c.concat({y, rest}, 2);
}

/// What is read of the layer's cache with the new rows, [1, context, key heads, width].
Value Step::cached(Emitter &c, std::string_view kind, int64_t index, Value x) {
  if (!x || c.failed()) {
    return Value();
  }
  std::string name = strCat(kind, '.', index);
  Value indices = c.reshape(places, {tokens, c.constantSize(1)});
  Value cache = c.make<tn::ScatterNdOp>(caches[name], indices, x, tn::ScatterKind::none);
  states.emplace_back(name, cache);
  Value read = c.sliceAxis(cache, 0, c.constantSize(0), seen);
  tn::Dims dims = tn::getDims(read.getType());
  dims.insert(dims.begin(), c.constantSize(1));
  return c.reshape(read, dims);
}

Value Step::attention(int64_t index, Value x) {
  Emitter c(*this, layerTensor(index, "attention"));
  auto named = [&](std::string_view part) { return layerTensor(index, part); };
  Value h = norm(c, x, named("attn_norm.weight"), model.width);
  Value q = projected(c, h, named("attn_q"), model.heads, model.keyWidth);
  Value k = projected(c, h, named("attn_k"), model.keyHeads, model.keyWidth);
  Value v = projected(c, h, named("attn_v"), model.keyHeads, model.valueWidth);
  if (model.family->normalizesHeads && q && k) {
    q = norm(c, q, named("attn_q_norm.weight"), model.keyWidth);
    k = norm(c, k, named("attn_k_norm.weight"), model.keyWidth);
  }
  int64_t every = model.family->noRopeEvery;
  if (every == 0 || (index + 1) % every != 0) {
    q = turned(c, q, model.heads);
    k = turned(c, k, model.keyHeads);
  }
  k = cached(c, "keys", index, k);
  v = cached(c, "values", index, v);
  if (!q || !k || !v || c.failed()) {
    return Value();
  }
  AffineExpr one = c.constantSize(1);
  q = c.reshape(q, {one, tokens, c.constantSize(model.heads), c.constantSize(model.keyWidth)});
  bool inner[] = {true, true, true, true};
  Value y = c.make<tn::AttentionOp>(
      q, k, v, mask, llvm::APFloat(1 / std::sqrt(static_cast<double>(model.keyWidth))),
      /*causal=*/false, inner, /*maskedRowsAreNan=*/false);
  int64_t width = model.heads * model.valueWidth;
  y = y ? c.reshape(y, {tokens, c.constantSize(width)}) : y;
  return product(c, y, named("attn_output"), model.width, width);
}

Value Step::layer(int64_t index, Value x) {
  Value attended = attention(index, x);
  Emitter c(*this, layerTensor(index, "ffn"));
  if (!attended) {
    return Value();
  }
  x = c.add(x, attended);
  auto named = [&](std::string_view part) { return layerTensor(index, part); };
  Value h = norm(c, x, named("ffn_norm.weight"), model.width);
  Value gate = product(c, h, named("ffn_gate"), model.inner, model.width);
  Value up = product(c, h, named("ffn_up"), model.inner, model.width);
  Value y = gate && up ? c.mul(c.unary<tn::SiluOp>(gate), up) : Value();
  y = product(c, y, named("ffn_down"), model.width, model.inner);
  return y ? c.add(x, y) : y;
}

Result<ImportResult> Step::run() {
  beginModule();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    lastDiagnostic = tn::nameSymbols(diagnostic.str(), symbols.all());
    return success();
  });
  tn::ScopedAssumptions listening(&context, symbols);
  TENON_TRY(makeInputs());
  prepare();
  Emitter c(*this, "output");
  Value x = weights.rows(c, "token_embd.weight", {model.vocabulary, model.width}, tokenIds);
  for (int64_t i = 0; x && i < model.layers; ++i) {
    x = layer(i, x);
  }
  Value logits;
  if (x) {
    x = c.make<tn::GatherOp>(x, rowNumbers, int64_t{0});
    x = norm(c, x, "output_norm.weight", model.width);
    logits = product(c, x, model.tensor("output.weight") ? "output" : "token_embd",
                     model.vocabulary, model.width);
  }
  TENON_TRY(std::move(failure));
  TENON_ASSIGN(std::vector<frontend::Asset> assets, readText(model, positions, gaps));
  for (const std::string &name : weights.unread()) {
    gaps.push_back({.opType = "tensor",
                    .domain = "gguf",
                    .node = name,
                    .source = {},
                    .dtype = {},
                    .why = "nothing of the family reads the tensor, so the model would be another",
                    .workaround = {}});
  }
  ImportResult result;
  result.assets = std::move(assets);
  if (!gaps.empty() || !logits) {
    result.gaps = std::move(gaps);
    return result;
  }
  SmallVector<Value> results = {logits};
  SmallVector<StringAttr> names = {builder.getStringAttr("logits")};
  for (const auto &[name, value] : states) {
    results.push_back(value);
    names.push_back(builder.getStringAttr(strCat(name, ".next")));
  }
  endFunction(results, names);
  TENON_ASSIGN(result.module, takeModule());
  for (const auto &[name, value] : states) {
    TENON_TRY(tn::declareState(*result.module, name, strCat(name, ".next")));
  }
  return result;
}

} // namespace

namespace {

Result<ImportResult> importRead(gguf::File file, std::shared_ptr<const Folder> folder,
                                std::vector<frontend::Gap> gaps,
                                const frontend::ImportOptions &options, MLIRContext &context,
                                tn::WeightStore &store) {
  TENON_ASSIGN(Model model, readModel(std::move(file), std::move(folder), gaps));
  if (!model.family) {
    ImportResult result;
    result.gaps = std::move(gaps);
    return result;
  }
  Step step(model, options, context, store);
  step.gaps = std::move(gaps);
  return step.run();
}

} // namespace

Result<ImportResult> importGguf(const std::string &path, const frontend::ImportOptions &options,
                                MLIRContext &context, tn::WeightStore &store) {
  context.loadDialect<tn::TnDialect, func::FuncDialect>();
  TENON_ASSIGN(MappedFile mapped, MappedFile::open(path));
  std::shared_ptr<MappedFile> file = std::make_shared<MappedFile>(std::move(mapped));
  store.keep(file);
  Result<gguf::File> read = gguf::read(file->bytes());
  if (!read) {
    return read.takeStatus().prefix(path);
  }
  Result<ImportResult> result = importRead(std::move(*read), nullptr, {}, options, context, store);
  if (!result) {
    return result.takeStatus().prefix(path);
  }
  return result;
}

Result<ImportResult> importFolder(const std::string &path, const frontend::ImportOptions &options,
                                  MLIRContext &context, tn::WeightStore &store) {
  context.loadDialect<tn::TnDialect, func::FuncDialect>();
  std::vector<frontend::Gap> gaps;
  Result<std::shared_ptr<Folder>> folder = openFolder(path, gaps);
  if (!folder) {
    return folder.takeStatus().prefix(path);
  }
  store.keep(*folder);
  if (!(*folder)->isReadable) {
    ImportResult refused;
    refused.gaps = std::move(gaps);
    return refused;
  }
  Result<ImportResult> result =
      importRead((*folder)->file, *folder, std::move(gaps), options, context, store);
  if (!result) {
    return result.takeStatus().prefix(path);
  }
  for (frontend::Gap &gap : result->gaps) {
    gap.domain = "huggingface";
  }
  return result;
}

} // namespace tenon::language

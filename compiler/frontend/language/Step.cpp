// Builds the module of a language model: one step of a decoder over the tokens that are new. Relies
// on the table of families for what differs.
//
// One file: inputs, layers and logits of one graph, in the order in which it is built.
#include "compiler/frontend/language/Language.h"

#include "compiler/frontend/common/AttentionScores.h"
#include "compiler/frontend/language/Folder.h"
#include "compiler/frontend/language/Step.h"
#include "compiler/frontend/language/Text.h"
#include "compiler/frontend/weights/gguf/Parts.h"
#include "compiler/graph/CachedRows.h"
#include "compiler/graph/DimText.h"
#include "compiler/graph/State.h"
#include "support/text/Text.h"

#include <cmath>

using namespace mlir;

namespace tenon::language {
namespace {

using frontend::ImportResult;

/// Tokens of one run at most, unless the user says otherwise.
constexpr int64_t kMostTokens = 512;
/// Tokens of one run at most whose logits are asked for, unless the user says otherwise: those of a
/// vocabulary are many.
constexpr int64_t kMostRows = 64;
/// Positions of a session, unless the user says otherwise.
constexpr int64_t kPositions = 2048;
/// Sequences of one run at most, unless the user says otherwise.
constexpr int64_t kSequences = 64;

} // namespace

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
Result<AffineExpr> Step::sizeOf(StringRef input, StringRef symbol, int64_t most) {
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
  return symbols.get(symbol, least, most, isDeclared);
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
  TENON_ASSIGN(tokens, sizeOf("tokens", "tokens", std::min(positions, kMostTokens)));
  TENON_ASSIGN(rows, sizeOf("rows", "rows", std::min(positions, kMostRows)));
  tokenIds = addInput("tokens", {tokens}, builder.getI64Type());
  return hasPages() ? makePages() : makeOneSequence();
}

void Step::addCaches(Type element, std::function<tn::Dims(int64_t width)> dims) {
  for (int64_t i = 0; i < model.layers; ++i) {
    for (auto [kind, width] : {std::pair("keys", model.keyWidth), {"values", model.valueWidth}}) {
      std::string name = strCat(kind, '.', i);
      caches[name] = cast<BlockArgument>(addInput(name, dims(width), element));
    }
  }
}

Status Step::makeOneSequence() {
  TENON_ASSIGN(seen, sizeOf("context", "context", positions));
  Type index = builder.getI64Type();
  start = addInput("start", {symbols.constant(1)}, index);
  rowNumbers = addInput("rows", {rows}, index);
  seenPositions = addInput("context", {seen}, index);
  addCaches(builder.getF32Type(), [&](int64_t width) {
    return tn::Dims{symbols.constant(positions), symbols.constant(model.keyHeads),
                    symbols.constant(width)};
  });
  return Status::ok();
}

Status Step::makePages() {
  TENON_ASSIGN(AffineExpr sequences, sizeOf("lengths", "sequences", kSequences));
  AffineExpr table = symbols.constant(llvm::divideCeil(positions, kPagePositions));
  Type index = builder.getI64Type();
  places = addInput("positions", {tokens}, index);
  slots = addInput("slots", {tokens}, index);
  starts = addInput("starts", {tn::addDims(sequences, symbols.constant(1))}, index);
  lengths = addInput("lengths", {sequences}, index);
  pageTable = addInput("pages", {sequences, table}, index);
  rowNumbers = addInput("rows", {rows}, index);
  AffineExpr count = symbols.get("pages", 1, options.pages, /*declared=*/true);
  Type element = options.cache == DType::I8         ? Type(builder.getI8Type())
                 : options.cache == DType::F8E4M3FN ? Type(builder.getType<Float8E4M3FNType>())
                                                    : Type(builder.getF32Type());
  addCaches(element, [&](int64_t width) {
    return tn::Dims{count, symbols.constant(model.keyHeads), symbols.constant(kPagePositions),
                    symbols.constant(width + tn::CachedRows::extra(element))};
  });
  return Status::ok();
}

/// Both elements of a pair have its cosine and sine, the first one's sine with its sign.
Angles Step::anglesOf(Emitter &c, const Rotation &rotation) {
  bool isPairs = model.rope == Rope::Pairs;
  int64_t half = model.turned / 2;
  std::vector<double> byPosition = frequencies(rotation, model.turned, positions);
  AffineExpr one = c.constantSize(1), two = c.constantSize(2), pairs = c.constantSize(half);
  auto table = [&](double (*function)(double), double sign) {
    std::vector<double> numbers(positions * model.turned);
    for (int64_t position = 0; position < positions; ++position) {
      for (int64_t pair = 0; pair < half; ++pair) {
        double value =
            rotation.magnitude * function(static_cast<double>(position) * byPosition[pair]);
        int64_t row = position * model.turned;
        numbers[row + (isPairs ? 2 * pair : pair)] = sign * value;
        numbers[row + (isPairs ? 2 * pair + 1 : half + pair)] = value;
      }
    }
    Value values = c.realConstant(numbers, {positions, model.turned}, builder.getF32Type());
    values = c.make<tn::GatherOp>(values, places, int64_t{0});
    return c.reshape(values, isPairs ? tn::Dims{tokens, one, pairs, two}
                                     : tn::Dims{tokens, one, two, pairs});
  };
  return {.cosine = table(std::cos, 1), .sine = table(std::sin, -1)};
}

/// Which keys a query sees: those up to its own, or only the last of them.
Value Step::maskOf(Emitter &c, int64_t window) {
  Value keys = c.alongAxis(seenPositions, 3, 4);
  Value queries = c.alongAxis(places, 2, 4);
  Value isSeen = c.compare(keys, tn::Predicate::le, queries);
  if (window > 0) {
    Value end = c.add(keys, c.scalarLike(static_cast<double>(window), keys));
    isSeen = c.make<tn::AndOp>(isSeen, c.compare(queries, tn::Predicate::lt, end));
  }
  return frontend::additive(c, isSeen, builder.getF32Type());
}

/// What all layers share.
void Step::prepare() {
  Emitter c(*this, "positions");
  if (!hasPages()) {
    places = c.add(c.positions(tokens), start);
  }
  if (model.rope != Rope::None) {
    windowAngles = angles = anglesOf(c, model.rotation);
  }
  bool hasWindows = llvm::is_contained(model.isWindowed, true);
  if (hasWindows) {
    windowAngles = model.windowRotation ? anglesOf(c, *model.windowRotation) : angles;
  }
  if (!hasPages() && model.scoreCap != 0) {
    mask = maskOf(c, 0);
    windowMask = hasWindows && model.window < positions ? maskOf(c, model.window) : mask;
  }
}

//===--- Parts of a layer ---===//

std::string Step::fileName(const std::string &name) const {
  constexpr std::string_view kWeight = ".weight";
  std::string theirs = model.file.nameOf(strCat(name, kWeight));
  return theirs.ends_with(kWeight) ? theirs.substr(0, theirs.size() - kWeight.size()) : theirs;
}

std::string Step::partName(const std::string &own, const std::string &tensor, int depth) const {
  if (!model.folder) {
    return own;
  }
  std::string name = fileName(tensor);
  for (int i = 0; i < depth; ++i) {
    name.resize(std::min(name.rfind('.'), name.size()));
  }
  return name;
}

Value Step::norm(Value x, const std::string &name, int64_t size) {
  Emitter c(*this, fileName(name));
  Value scale = weights.get(c, name + ".weight", {size});
  Value bias = model.family->hasLayerNorm ? weights.get(c, name + ".bias", {size}) : Value();
  if (!x || !scale || c.failed()) {
    return Value();
  }
  int64_t axis = static_cast<int64_t>(tn::getDims(x.getType()).size()) - 1;
  llvm::APFloat epsilon(model.epsilon);
  return bias ? c.make<tn::LayerNormOp>(x, scale, bias, axis, epsilon)
              : c.make<tn::RmsNormOp>(x, scale, axis, epsilon);
}

Value Step::product(Value x, const std::string &name, Rows outputs, int64_t inputs,
                    bool needsBias) {
  // A product with the embedding is another layer than the embedding.
  Emitter c(*this, fileName(name == "token_embd" ? "output" : name));
  Value matrix = weights.cut(c, name + ".weight", outputs, {inputs});
  Value y = x && matrix ? c.make<tn::MatmulOp>(x, matrix, false, true) : Value();
  Value bias = weights.cut(c, name + ".bias", outputs, {}, /*isOptional=*/!needsBias);
  return y && bias ? c.add(y, bias) : y;
}

Value Step::feedForward(int64_t index, Value x) {
  Emitter c(*this, partName(layerTensor(index, "ffn"), layerTensor(index, "ffn_down"), 1));
  auto named = [&](std::string_view part) { return layerTensor(index, part); };
  bool isGated = model.family->isGated;
  // One matrix may hold both: what is activated, then what that scales.
  bool isFused = isGated && !model.tensor(named("ffn_gate.weight"));
  int64_t size = model.inner;
  Rows first = isFused ? Rows(2 * size, 0, size) : size;
  Rows second = isFused ? Rows(2 * size, size, size) : size;
  Value y = product(x, named(isGated && !isFused ? "ffn_gate" : "ffn_up"), first, model.width);
  switch (model.family->activation) {
  case Activation::Silu:
    y = c.unary<tn::SiluOp>(y);
    break;
  case Activation::Gelu:
  case Activation::GeluTanh:
    y = c.unary<tn::GeluOp>(y, model.family->activation == Activation::GeluTanh);
    break;
  }
  Value up = isGated ? product(x, named("ffn_up"), second, model.width) : Value();
  y = isGated ? y && up ? c.mul(y, up) : Value() : y;
  return product(y, named("ffn_down"), model.width, size);
}

Value Step::layer(int64_t index, Value x) {
  Emitter c(*this, partName(layerTensor(index, "residual"), layerTensor(index, "attn_norm"), 1));
  auto normalized = [&](Value value, std::string_view part) {
    return norm(value, layerTensor(index, part), model.width);
  };
  bool isAfter = model.family->normalizesResults;
  Value y = attention(index, normalized(x, "attn_norm"));
  y = isAfter ? normalized(y, "post_attention_norm") : y;
  Value sum = y ? c.add(x, y) : Value();
  y = feedForward(index, normalized(model.isParallel ? x : sum, "ffn_norm"));
  y = isAfter ? normalized(y, "post_ffw_norm") : y;
  return sum && y ? c.add(sum, y) : Value();
}

Value Step::embedded() {
  Emitter c(*this, fileName("token_embd"));
  Value x = weights.rows(c, "token_embd.weight", {model.vocabulary, model.width}, tokenIds);
  if (x && model.embeddingScale != 1) {
    x = c.mul(x, c.scalarLike(model.embeddingScale, x));
  }
  if (model.rope == Rope::None) {
    Value at = weights.rows(c, "position_embd.weight", {model.context, model.width}, places);
    x = x && at ? c.add(x, at) : Value();
  }
  return x;
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
  Emitter c(*this, fileName("output"));
  Value x = embedded();
  for (int64_t i = 0; x && i < model.layers; ++i) {
    x = layer(i, x);
  }
  Value logits;
  if (x) {
    x = c.make<tn::GatherOp>(x, rowNumbers, int64_t{0});
    x = norm(x, "output_norm", model.width);
    logits = product(x, model.tensor("output.weight") ? "output" : "token_embd", model.vocabulary,
                     model.width);
    logits = capped(c, logits, model.logitCap);
  }
  TENON_TRY(std::move(failure));
  TENON_ASSIGN(std::vector<frontend::Asset> assets,
               readText(model, positions, options.pages, gaps));
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
  // What seeded inputs may hold: tokens that there are, at the first position, and the first row.
  std::string limits =
      hasPages() ? strCat("{\"tokens\": ", model.vocabulary - 1, ", \"positions\": ", positions - 1,
                          ", \"slots\": 0, \"starts\": 0, \"lengths\": 0, \"pages\": 0, "
                          "\"rows\": 0}")
                 : strCat("{\"tokens\": ", model.vocabulary - 1, ", \"start\": 0, \"rows\": 0}");
  (*result.module)
      ->setAttr("tn.metadata", builder.getDictionaryAttr(builder.getNamedAttr(
                                   "input_limits", builder.getStringAttr(limits))));
  for (const auto &[name, value] : states) {
    TENON_TRY(tn::declareState(*result.module, name, strCat(name, ".next")));
  }
  func::FuncOp function = *result.module->getOps<func::FuncOp>().begin();
  for (BlockArgument argument : function.getArguments()) {
    StringAttr own = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "tn.name");
    if (own && !caches.contains(own.str())) {
      function.setArgAttr(argument.getArgNumber(), tn::kRole, own);
    }
  }
  if (hasPages()) {
    // A session that says nothing has one sequence.
    TENON_TRY(tn::setPreset(
        *result.module, "pages",
        std::min<int64_t>(options.pages, llvm::divideCeil(positions, kPagePositions))));
  }
  return result;
}

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
  Result<std::vector<std::shared_ptr<MappedFile>>> parts = gguf::readLaterParts(path, *read);
  if (!parts) {
    return parts.takeStatus().prefix(path);
  }
  for (std::shared_ptr<MappedFile> &part : *parts) {
    store.keep(std::move(part));
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

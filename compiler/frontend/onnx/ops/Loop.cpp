// Loop, unrolled. Where data decides whether an iteration runs, it is imported all the same and its
// results are selected. Relies on a known bound of the trip count and on `tn` operations having no
// effects.
#include "compiler/frontend/onnx/StatedSizes.h"
#include "compiler/frontend/onnx/ops/Bodies.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

constexpr char kChangingShape[] = "data decides how many iterations run, and they change the shape "
                                  "of what they carry";
constexpr char kFixCount[] = "make the number of iterations a constant";

bool isInteger(const ImportedValue &value) {
  return value.type && isa<IntegerType>(value.type.getElementType());
}

struct Trips {
  int64_t least = 0;
  int64_t most = 0;
  AffineExpr count;         ///< null unless least != most
  std::optional<int64_t> stated; ///< what each run has to check the trip count for
};

class LoopImport {
public:
  explicit LoopImport(NodeContext &context) : c(context) {}

  void run() {
    numCarried = c.numInputs() - 2;
    for (unsigned i = 0; i < numCarried; ++i) {
      if (!c.has(i + 2)) {
        return c.error(ErrorId::OnnxBadArity, "leaves out the initial value " + Twine(i));
      }
      carried.push_back(c.input(i + 2));
    }
    given = carried;
    std::optional<Trips> trips =
        c.requireTensor(0) && c.requireTensor(1) ? readTrips() : std::nullopt;
    if (!trips) {
      return;
    }
    std::optional<int64_t> most =
        trips->most == kUnbounded ? std::nullopt : std::optional(trips->most);
    Unrolling unrolling(c, numCarried + 2, most);
    if (!unrolling.body || !checkResults(*unrolling.body) || !readCondition()) {
      return;
    }
    scans.resize(unrolling.body->outputs.size() - numCarried - 1);
    for (int64_t i = 0; i < trips->most && !hasEnded; ++i) {
      if (!importIteration(unrolling, *trips, i)) {
        return;
      }
    }
    setOutputs(*unrolling.body, *trips);
  }

private:
  bool checkResults(const Graph &body) {
    if (body.outputs.size() < numCarried + 1 || body.outputs.size() - 1 < c.numOutputs()) {
      c.error(ErrorId::OnnxBadAttribute, "attribute 'body' has fewer results than the node needs");
    }
    return !c.failed();
  }

  std::optional<Trips> readTrips() {
    if (!c.has(0)) {
      return Trips{kUnbounded, kUnbounded, {}, {}};
    }
    std::optional<Sizes> known = c.sizes(0);
    if (known && known->isScalarLike()) {
      AffineExpr count = known->values[0];
      tn::SymbolList::Range range = c.symbols().bounds(count);
      Trips trips{std::max<int64_t>(range.min, 0), std::max<int64_t>(range.max, 0), {}, {}};
      trips.count = trips.least == trips.most ? AffineExpr() : count;
      return trips;
    }
    for (unsigned i = numCarried; i < c.numOutputs(); ++i) {
      std::optional<tn::Dims> stated = c.statedDims(i);
      std::optional<int64_t> length =
          stated && !stated->empty() ? tn::constantDim((*stated)[0]) : std::nullopt;
      if (length) {
        return Trips{*length, *length, {}, length};
      }
    }
    c.gap("its trip count is computed from input data and has no known bound",
          "make the trip count a constant, or compute it from shapes, and export again");
    return std::nullopt;
  }

  /// False after a failure.
  bool readCondition() {
    std::optional<SmallVector<int64_t>> known = c.integers(1);
    if (known && known->size() == 1) {
      hasEnded = (*known)[0] == 0;
    } else if (c.has(1)) {
      condition = c.reshape(c.value(1), {});
    }
    return !c.failed();
  }

  /// Whether iteration `i` runs, as data; null if it does for certain.
  Value activity(const Trips &trips, int64_t i) {
    if (i < trips.least) {
      return condition;
    }
    Type index = c.builder().getI64Type();
    Value count = c.sizeValue(c.symbols().canonical(trips.count), index);
    Value remains =
        c.compare(count, tn::Predicate::gt, c.scalar(static_cast<double>(i), index));
    return condition ? c.make<tn::AndOp>(condition, remains) : remains;
  }

  bool wantsScans() const {
    return llvm::any_of(llvm::seq(numCarried, std::max(numCarried, c.numOutputs())),
                        [&](unsigned i) { return c.wantsOutput(i); });
  }

  bool importIteration(Unrolling &unrolling, const Trips &trips, int64_t i) {
    if (condition && wantsScans()) {
      c.gap("data decides how long its scan outputs are",
            "let the condition depend on constants only, or carry a tensor of fixed length");
    }
    Value active = activity(trips, i);
    ImportedValues inputs = {knownInteger(c, i, c.builder().getI64Type()),
                             knownInteger(c, 1, c.builder().getI1Type())};
    for (unsigned k = 0; k < numCarried; ++k) {
      given[k] = active && i > 0 && isInteger(carried[k])
                     ? choose(c, active, carried[k], given[k], kChangingShape, kFixCount)
                     : carried[k];
      inputs.push_back(given[k]);
    }
    std::optional<ImportedValues> results = c.failed() ? std::nullopt : unrolling.next(inputs);
    if (!results || !staysOpen(trips, i)) {
      return false;
    }
    for (unsigned k = 0; k < numCarried; ++k) {
      carried[k] = carry(active, (*results)[k + 1], carried[k]);
    }
    for (size_t k = 0; k < scans.size(); ++k) {
      scans[k].push_back((*results)[numCarried + 1 + k]);
    }
    return takeCondition(results->front());
  }

  ImportedValue carry(Value active, ImportedValue &next, const ImportedValue &before) {
    c.importer().evaluate(next);
    if (next.constant && next.constant->elements <= uint64_t{Sizes::kMaxElements}) {
      next.value = Value(); // what later conditions are computed from begins here
    }
    return active ? choose(c, active, next, before, kChangingShape, kFixCount) : next;
  }

  /// Whether sizes may still be such that this iteration does not run; else a gap.
  bool staysOpen(const Trips &trips, int64_t i) {
    if (i >= trips.least && c.symbols().bounds(c.symbols().canonical(trips.count)).min > i) {
      c.gap("its iteration " + Twine(i) + " needs sizes of which its trip count is larger than " +
                Twine(i),
            "declare one size instead of a range with --shape");
    }
    return !c.failed();
  }

  /// What an iteration says about the next; false after a failure.
  bool takeCondition(ImportedValue &given) {
    std::optional<Sizes> known = given.isContainer() ? std::nullopt : c.sizesOf(given);
    std::optional<int64_t> constant =
        known && known->isScalarLike() ? tn::constantDim(known->values[0]) : std::nullopt;
    if (!c.has(1) && constant.value_or(0) == 0) {
      c.gap("its body ends it, which has an effect only with an input 'cond'",
            "give it a constant true as input 'cond'");
    } else if (constant) {
      hasEnded = *constant == 0;
    } else {
      Value more = c.reshape(c.importer().materialize(given, c.location()), {});
      condition = condition ? c.make<tn::AndOp>(condition, more) : more;
    }
    return !c.failed();
  }

  void setOutputs(const Graph &body, const Trips &trips) {
    Value fits;
    if (trips.stated) {
      Type index = c.builder().getI64Type();
      fits = c.compare(c.reshape(c.cast(c.value(0), index), {}), tn::Predicate::eq,
                       c.scalar(static_cast<double>(*trips.stated), index));
    }
    for (unsigned i = 0; i < c.numOutputs(); ++i) {
      ImportedValue result = i < numCarried ? carried[i] : scanned(body, trips, i - numCarried);
      if (fits && !result.isContainer()) {
        Value data = c.importer().materialize(result, c.location());
        result = tensorOf(requireCondition(
            c, data, fits, "the trip count is the length that the model states for its result"));
      }
      if (!c.failed()) {
        c.setOutput(i, result);
      }
    }
  }

  ImportedValue scanned(const Graph &body, const Trips &trips, unsigned k) {
    ImportedValues &parts = scans[k];
    if (parts.empty()) {
      return joinNone(c, body.outputs[numCarried + 1 + k], 0);
    }
    ImportedValue all = join(c, parts, 0, /*isNewAxis=*/true);
    return trips.count ? takePart(c, all, 0, c.constantSize(0),
                                  c.symbols().canonical(trips.count), /*keepAxis=*/true)
                       : all;
  }

  NodeContext &c;
  unsigned numCarried = 0;
  ImportedValues carried;
  /// What the last iteration was given. One that does not run is given the integers of the last one
  /// that does: a division by zero or a bad index in it would end the run.
  ImportedValues given;
  std::vector<ImportedValues> scans;
  Value condition; ///< whether the next iteration runs, as data; null if it does for certain
  bool hasEnded = false;
};

void importLoop(NodeContext &c) { LoopImport(c).run(); }

constexpr OpRow kRows[] = {
    {"Loop", 1, 3, kMany, kMany, importLoop, {needs({"body", kGraph})}, "", 0b011, true},
    {"Loop", 11, 2, kMany, kMany, importLoop, {needs({"body", kGraph})}, "", 0b011, true},
};

} // namespace

ArrayRef<OpRow> loopRows() { return kRows; }

} // namespace tenon::onnx

// Loop, unrolled. Where data decides whether an iteration runs, it is imported all the same and its
// results are selected; where data decides how long scan outputs are, they are as long as the model
// states, and every run checks that. Relies on `tn` operations having no effects.
#include "compiler/frontend/onnx/StatedSizes.h"
#include "compiler/frontend/onnx/ops/Bodies.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

constexpr char kChangingShape[] =
    "data decides how many iterations run, and they change the shape of a carried value";
constexpr char kFixCount[] = "make the number of iterations a constant";

bool isInteger(const ImportedValue &value) {
  return value.type && isa<IntegerType>(value.type.getElementType());
}

/// What is known of the trip count.
struct Trips {
  int64_t least = 0;
  int64_t most = 0;
  AffineExpr count;    ///< null unless sizes of inputs decide it
  bool isData = false; ///< input data decide it
};

class LoopImport {
public:
  explicit LoopImport(NodeContext &context) : c(context) {}

  void run() {
    numCarried = c.numInputs() - 2;
    if (!requireInputs(c, 2)) {
      return;
    }
    for (unsigned i = 0; i < numCarried; ++i) {
      carried.push_back(c.input(i + 2));
    }
    given = carried;
    if (!c.requireTensor(0) || !c.requireTensor(1) || !readTrips() || !readCondition()) {
      return;
    }
    std::optional<int64_t> most =
        trips.most == kUnbounded ? std::nullopt : std::optional(trips.most);
    Unrolling unrolling(c, numCarried + 2, most);
    if (!unrolling.body || !checkResults(*unrolling.body)) {
      return;
    }
    scans.resize(unrolling.body->outputs.size() - numCarried - 1);
    for (; hasNext(); ++done) {
      if (!importIteration(unrolling)) {
        return;
      }
    }
    setOutputs(*unrolling.body);
  }

private:
  //===--- How many iterations there are ---===//

  bool readTrips() {
    std::optional<Sizes> known = c.sizes(0);
    if (!c.has(0)) {
      trips = {kUnbounded, kUnbounded, {}};
    } else if (known && known->isScalarLike()) {
      tn::SymbolList::Range range = c.symbols().bounds(known->values[0]);
      trips = {std::max<int64_t>(range.min, 0), std::max<int64_t>(range.max, 0), {}};
      trips.count = trips.least == trips.most ? AffineExpr() : known->values[0];
    } else {
      trips = {kUnbounded, kUnbounded, {}, /*isData=*/true};
      stated = statedLength();
      if (!stated) {
        c.gap("its trip count is computed from input data and has no known bound",
              "make the trip count a constant, or compute it from shapes, and export again");
      }
    }
    return !c.failed();
  }

  bool readCondition() {
    std::optional<SmallVector<int64_t>> known = c.integers(1);
    if (known && known->size() == 1) {
      hasEnded = (*known)[0] == 0;
    } else if (c.has(1)) {
      condition = c.reshape(c.value(1), {});
    }
    return !c.failed();
  }

  bool checkResults(const Graph &body) {
    if (body.outputs.size() < numCarried + 1 || body.outputs.size() - 1 < c.numOutputs()) {
      c.error(ErrorId::OnnxBadAttribute, "attribute 'body' has fewer results than the node needs");
    }
    return !c.failed();
  }

  /// The first constant length that the model states for a scan output.
  std::optional<int64_t> statedLength() {
    for (unsigned i = numCarried; i < c.numOutputs(); ++i) {
      std::optional<tn::Dims> dims = c.statedDims(i);
      std::optional<int64_t> length =
          dims && !dims->empty() ? tn::constantDim((*dims)[0]) : std::nullopt;
      if (length) {
        return length;
      }
    }
    return std::nullopt;
  }

  bool wantsScans() const {
    for (unsigned i = numCarried; i < c.numOutputs(); ++i) {
      if (c.wantsOutput(i)) {
        return true;
      }
    }
    return false;
  }

  bool hasNext() {
    if (hasEnded || done >= trips.most) {
      return false;
    }
    if (condition && !stated && wantsScans()) {
      stated = trips.count ? std::nullopt : statedLength();
      if (!stated || *stated < done || *stated > trips.most) {
        c.gap("data decides how long its scan outputs are",
              "let the condition depend on constants only, or carry a tensor of fixed length");
      }
    }
    return !c.failed() && (!stated || done < *stated);
  }

  /// Whether there are as many iterations as were imported, as data; null if that is certain.
  Value isStatedCount() {
    Value fits = ran;
    Value stops = condition ? c.make<tn::NotOp>(condition) : Value();
    if (trips.isData) {
      Type index = c.builder().getI64Type();
      Value count = c.cast(c.reshape(c.value(0), {}), index);
      Value imported = c.scalar(static_cast<double>(done), index);
      fits = done > 0 ? both(fits, c.compare(count, tn::Predicate::ge, imported)) : fits;
      Value reached = c.compare(count, tn::Predicate::le, imported);
      stops = stops ? c.make<tn::OrOp>(stops, reached) : reached;
    }
    return hasEnded || done == trips.most ? fits : both(fits, stops);
  }

  /// Null stands for true.
  Value both(Value a, Value b) { return a && b ? c.make<tn::AndOp>(a, b) : a ? a : b; }

  //===--- An iteration ---===//

  /// Whether the next iteration runs, as data; null if it does for certain.
  Value activity() {
    if (stated) {
      ran = condition;
      return Value();
    }
    if (done < trips.least) {
      return condition;
    }
    Type index = c.builder().getI64Type();
    Value count = c.sizeValue(c.symbols().canonical(trips.count), index);
    return both(condition,
                c.compare(count, tn::Predicate::gt, c.scalar(static_cast<double>(done), index)));
  }

  bool importIteration(Unrolling &unrolling) {
    Value active = activity();
    Choice choice(c, active, kChangingShape, kFixCount);
    number = iterationNumber(choice);
    ImportedValues inputs = {number, knownInteger(c, 1, c.builder().getI1Type())};
    for (unsigned k = 0; k < numCarried; ++k) {
      bool mayBeBad = active && done > 0 && isInteger(carried[k]);
      given[k] = isCounter(k) ? latest[k]
                 : mayBeBad   ? choice.between(carried[k], given[k])
                              : carried[k];
      inputs.push_back(given[k]);
    }
    std::optional<ImportedValues> results = c.failed() ? std::nullopt : unrolling.next(inputs);
    if (!results && trips.count) {
      c.gap("its trip count is a size, from " + Twine(trips.least) + " to " + Twine(trips.most) +
                ", so that its body may not need the iteration's number as a constant",
            "declare one size instead of a range with --shape");
    }
    if (!results || c.failed()) {
      return false;
    }
    latest.clear();
    for (unsigned k = 0; k < numCarried; ++k) {
      latest.push_back(taken((*results)[k + 1]));
      carried[k] = active ? choice.between(latest[k], carried[k]) : latest[k];
    }
    for (size_t k = 0; k < scans.size(); ++k) {
      scans[k].push_back((*results)[numCarried + 1 + k]);
    }
    return takeCondition(results->front());
  }

  /// A constant, but where a size decides whether the iteration runs: a position in what has that
  /// size must then stay in it.
  ImportedValue iterationNumber(Choice &choice) {
    ImportedValue known = knownInteger(c, done, c.builder().getI64Type());
    return trips.count && done > 0 && done >= trips.least ? choice.between(known, number) : known;
  }

  /// Whether a loop that its condition alone ends counts with this value. What an iteration is
  /// given matters only if all before it ran, and then the counter is a constant.
  bool isCounter(unsigned k) {
    bool mayCount = trips.most == kUnbounded && !stated && done > 0 && isInteger(latest[k]);
    std::optional<Sizes> known = mayCount ? c.sizesOf(latest[k]) : std::nullopt;
    return known && known->isScalarLike() && tn::constantDim(known->values[0]);
  }

  /// What a constant result is, as such: later conditions are computed from it.
  ImportedValue taken(ImportedValue &result) {
    c.importer().evaluate(result);
    if (result.constant && result.constant->elements <= uint64_t{Sizes::kMaxElements}) {
      result.value = Value();
    }
    return result;
  }

  /// What an iteration says about the next; false after a failure.
  bool takeCondition(ImportedValue &more) {
    if (more.isContainer()) {
      c.error(ErrorId::OnnxBadNode, "the condition computed by its body is not a tensor");
      return false;
    }
    std::optional<Sizes> known = c.sizesOf(more);
    std::optional<int64_t> constant =
        known && known->isScalarLike() ? tn::constantDim(known->values[0]) : std::nullopt;
    if (!c.has(1) && constant.value_or(0) == 0) {
      c.gap("its body ends the loop, which has an effect only with an input 'cond'",
            "give it a constant true as input 'cond'");
    } else if (constant) {
      hasEnded = *constant == 0;
    } else {
      condition = both(condition, c.reshape(c.importer().materialize(more, c.location()), {}));
    }
    return !c.failed();
  }

  //===--- Results ---===//

  void setOutputs(const Graph &body) {
    Value fits = stated ? isStatedCount() : Value();
    for (unsigned i = 0; i < c.numOutputs() && !c.failed(); ++i) {
      ImportedValue result = i < numCarried ? carried[i] : scanned(body, i - numCarried);
      if (fits && !result.isContainer()) {
        result = tensorOf(requireCondition(
            c, c.importer().materialize(result, c.location()), fits,
            "the number of iterations is the length that the model states for a scan output"));
      }
      c.setOutput(i, result);
    }
  }

  ImportedValue scanned(const Graph &body, unsigned k) {
    if (scans[k].empty()) {
      return joinNone(c, body.outputs[numCarried + 1 + k], 0);
    }
    ImportedValue all = join(c, scans[k], 0, /*isNewAxis=*/true);
    return trips.count ? takePart(c, all, 0, c.constantSize(0), c.symbols().canonical(trips.count),
                                  /*keepAxis=*/true)
                       : all;
  }

  NodeContext &c;
  unsigned numCarried = 0;
  Trips trips;
  /// How many iterations the model states by the length of a scan output; each run checks it.
  std::optional<int64_t> stated;
  int64_t done = 0;     ///< iterations
  ImportedValue number; ///< of the last iteration
  Value condition;      ///< whether the next iteration may run, as data; null if it may for certain
  Value ran;            ///< the same for the last one, if their number is stated
  bool hasEnded = false;
  ImportedValues carried;
  /// What the last iteration was given. One that does not run is given the integers of the last one
  /// that does: a division by zero or a bad index in it would end the run.
  ImportedValues given;
  /// What the last iteration gives if it runs.
  ImportedValues latest;
  std::vector<ImportedValues> scans;
};

void importLoop(NodeContext &c) { LoopImport(c).run(); }

constexpr OpRow kLoopOpRows[] = {
    {"Loop", 1, 3, kMany, kMany, importLoop, {needs({"body", kGraph})}, "", 0b011, true},
    {"Loop", 11, 2, kMany, kMany, importLoop, {needs({"body", kGraph})}, "", 0b011, true},
};

} // namespace

ArrayRef<OpRow> loopRows() { return kLoopOpRows; }

} // namespace tenon::onnx

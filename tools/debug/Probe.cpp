// Relies on compilations being repeatable: the same tries in the same order.
#include "tools/debug/Probe.h"

#include "compiler/dispatch/Names.h"
#include "compiler/graph/Tn.h"
#include "compiler/pipeline/NumericCheck.h"
#include "mlir/IR/Action.h"
#include "mlir/Rewrite/PatternApplicator.h"
#include "support/text/Text.h"
#include "tools/debug/RunEngine.h"

#include <map>

using namespace mlir;

namespace tenon::debug {
namespace {

constexpr char kSeparator = '\0';

std::string placeOf(Operation *op) {
  return strCat("'", dispatch::nameOf(op), "' (", std::string_view(op->getName().getStringRef()),
                ")");
}

class Watch {
public:
  Watch(const Trial &trial, const Limit &limit) : trial(trial), limit(limit) {}

  Sighting run();

private:
  Status begin(ModuleOp module, tn::WeightStore &weights);
  Status afterPass(std::string_view pass, ModuleOp module, tn::WeightStore &weights);
  void onAction(llvm::function_ref<void()> apply, const tracing::Action &action);

  const Trial &trial;
  const Limit &limit;
  ReferenceModel referenceModel;
  Result<Tensors> expected = Tensors();
  std::optional<pipeline::NumericCheck> numbers;
  std::map<std::string, unsigned, std::less<>> turns;
  size_t finished = 0; ///< steps
  bool isOver = false; ///< nothing later is looked at
  Sighting sighting;
};

void Watch::onAction(llvm::function_ref<void()> apply, const tracing::Action &action) {
  bool isWatched =
      isa<ApplyPatternAction>(action) && (finished == limit.step || limit.tries == Limit::kNone);
  if (!isWatched) {
    apply();
    return;
  }
  if (sighting.tries == limit.tries) {
    return;
  }
  if (++sighting.tries == limit.tries) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    action.print(stream);
    sighting.pattern = llvm::StringRef(text).rsplit("pattern: ").second;
    Operation *op = action.getContextIRUnits().empty()
                        ? nullptr
                        : dyn_cast_if_present<Operation *>(action.getContextIRUnits().front());
    sighting.place = op ? placeOf(op) : "";
  }
  apply();
}

Status Watch::begin(ModuleOp module, tn::WeightStore &weights) {
  module.getContext()->registerActionHandler(
      [this](llvm::function_ref<void()> apply, const tracing::Action &action) {
        onAction(apply, action);
      });
  numbers.emplace(weights, trial.threads);
  func::FuncOp function = *module.getOps<func::FuncOp>().begin();
  TENON_ASSIGN(Tensors inputs, inOrder(trial.inputs, argumentNames(function)));
  return numbers->start(module, std::move(inputs));
}

/// Stops the compilation with an error once what is looked for is known.
Status Watch::afterPass(std::string_view pass, ModuleOp module, tn::WeightStore &weights) {
  sighting.pass = pass;
  sighting.turn = ++turns[sighting.pass];
  if (finished == 0) {
    TENON_TRY(begin(module, weights));
  }
  bool isLooked = limit.tries == Limit::kNone || finished == limit.step;
  if (isLooked) {
    TENON_ASSIGN(Tensors results, numbers->evaluate(module));
    std::string text = referenceModel.difference(*expected, results, trial.seed);
    if (!text.empty()) {
      sighting.outcome = {.kind = Outcome::Kind::Different, .text = text};
      sighting.suspect = numbers->firstSuspect(module);
    }
    numbers->accept();
  }
  sighting.step = finished++;
  isOver = sighting.outcome.isFailure() || sighting.step == limit.step;
  if (isOver) {
    return Status::error(ErrorId::VerifyFailed, "seen");
  }
  sighting.tries = limit.tries == Limit::kNone ? 0 : sighting.tries;
  return Status::ok();
}

Sighting Watch::run() {
  Status imported = referenceModel.importFile(trial.compile.model, trial.compile.extraOutputs,
                                              trial.inputs, trial.compile);
  if (imported) {
    expected = referenceModel.evaluate();
  }
  if (!imported || !expected) {
    sighting.outcome = {.kind = Outcome::Kind::Refused,
                        .text = imported ? expected.status().toString() : imported.toString()};
    return sighting;
  }
  pipeline::CompileOptions options = trial.compile;
  options.stopAfter = pipeline::Phase::Dispatch;
  options.output.clear();
  pipeline::CompileHooks hooks = trial.hooks;
  hooks.afterPass = [this](std::string_view pass, ModuleOp module, tn::WeightStore &weights) {
    return afterPass(pass, module, weights);
  };
  Status compiled = pipeline::compile(options, hooks).takeStatus();
  if (!compiled && !isOver) {
    sighting.outcome = outcomeOf(compiled);
    sighting.step = finished;
  }
  return sighting;
}

std::string packed(const Sighting &sighting) {
  return strCat(sighting.step, kSeparator, sighting.pass, kSeparator, sighting.turn, kSeparator,
                sighting.tries, kSeparator, sighting.pattern, kSeparator, sighting.place,
                kSeparator, sighting.suspect);
}

Sighting unpacked(Outcome outcome, llvm::StringRef report) {
  llvm::SmallVector<llvm::StringRef> fields;
  report.split(fields, kSeparator);
  Sighting sighting;
  sighting.outcome = std::move(outcome);
  if (fields.size() != 7) {
    return sighting;
  }
  fields[0].getAsInteger(10, sighting.step);
  sighting.pass = fields[1];
  fields[2].getAsInteger(10, sighting.turn);
  fields[3].getAsInteger(10, sighting.tries);
  sighting.pattern = fields[4];
  sighting.place = fields[5];
  sighting.suspect = fields[6];
  return sighting;
}

/// A dispatched module whose regions' results are outputs too, and what they ought to be.
class RegionOutputs {
public:
  RegionOutputs(const Trial &trial, std::string &site) : trial(trial), site(site) {}
  /// Of a compilation that failed the copy is left, but not the context that it lives in.
  ~RegionOutputs() { (void)copy.release(); }

  /// Changes the module, and keeps a copy for the reference.
  void addOutputs(ModuleOp module, tn::WeightStore &weights);
  /// Once, while the compilation lives.
  Outcome compare();

private:
  const Trial &trial;
  std::string &site;
  tn::WeightStore *store = nullptr;
  OwningOpRef<ModuleOp> copy;
  std::vector<std::string> places; ///< of each result
  std::vector<size_t> order;       ///< results as the program makes them
};

void RegionOutputs::addOutputs(ModuleOp module, tn::WeightStore &weights) {
  store = &weights;
  func::FuncOp function = *module.getOps<func::FuncOp>().begin();
  Operation *end = function.getBody().front().getTerminator();
  llvm::SmallVector<Value> results(end->getOperands());
  std::vector<std::string> names = resultNames(function);
  for (tn::RegionOp region : function.getOps<tn::RegionOp>()) {
    for (Value result : region.getResults()) {
      if (!llvm::is_contained(results, result)) {
        results.push_back(result);
        names.push_back(strCat("tenon.region.", results.size()));
      }
    }
  }
  end->setOperands(results);
  llvm::SmallVector<Type> types(ValueRange(results).getTypes());
  Builder builder(module.getContext());
  // Attributes first hang on as many results as there are.
  std::vector<DictionaryAttr> attributes;
  for (unsigned i = 0; i < results.size(); ++i) {
    DictionaryAttr before =
        i < function.getNumResults() ? function.getResultAttrDict(i) : DictionaryAttr();
    NamedAttrList list(before ? before : builder.getDictionaryAttr({}));
    list.set("tn.name", builder.getStringAttr(names[i]));
    attributes.push_back(list.getDictionary(module.getContext()));
  }
  function.setFunctionType(builder.getFunctionType(function.getFunctionType().getInputs(), types));
  function.setAllResultAttrs(attributes);
  llvm::DenseMap<Operation *, size_t> positions;
  for (Operation &op : function.getBody().front()) {
    positions.insert({&op, positions.size()});
  }
  for (auto [index, result] : llvm::enumerate(results)) {
    Operation *maker = result.getDefiningOp();
    places.push_back(maker ? strCat("region of ", placeOf(maker))
                           : strCat("input '", names[index], "'"));
    order.push_back(index);
  }
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::pair(positions.lookup(results[a].getDefiningOp()), a) <
           std::pair(positions.lookup(results[b].getDefiningOp()), b);
  });
  copy = module.clone();
}

Outcome RegionOutputs::compare() {
  OwningOpRef<ModuleOp> module = std::move(copy);
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  reference::Interpreter interpreter(store, {.threads = 1});
  Result<Tensors> inputs = inOrder(trial.inputs, argumentNames(function));
  Result<Tensors> expected = inputs ? interpreter.evaluate(function, *inputs) : inputs.status();
  Result<std::vector<NamedTensor>> actual =
      runEngine(trial.compile.output, "", trial.threads, trial.inputs);
  if (!expected || !actual) {
    const Status &status = expected ? actual.status() : expected.status();
    return {.kind = Outcome::Kind::RunError, .id = status.id(), .text = status.toString()};
  }
  Explainer explainer(function, *store, *inputs, *expected, trial.seed);
  for (size_t index : order) {
    std::string problem = explainer.problem(index, (*actual)[index].tensor);
    if (!problem.empty()) {
      site = places[index];
      return {.kind = Outcome::Kind::Different, .text = problem};
    }
  }
  return {};
}

} // namespace

Sighting probe(const Trial &trial, const Limit &limit, double seconds) {
  std::string report;
  Outcome outcome = inChild(
      seconds,
      [&](std::string &text) {
        Sighting sighting = Watch(trial, limit).run();
        text = packed(sighting);
        return sighting.outcome;
      },
      &report);
  return unpacked(std::move(outcome), report);
}

Outcome probeRegions(const Trial &trial, double seconds, std::string &site) {
  return inChild(
      seconds,
      [&](std::string &place) {
        RegionOutputs regions(trial, place);
        Outcome outcome;
        pipeline::CompileOptions options = trial.compile;
        pipeline::CompileHooks hooks = trial.hooks;
        hooks.afterFormRegions = [&](ModuleOp module, tn::WeightStore &weights) {
          regions.addOutputs(module, weights);
          return Status::ok();
        };
        options.progress = [&](pipeline::Phase phase, double fraction) {
          if (phase == pipeline::Phase::Export && fraction == 1) {
            outcome = regions.compare();
          }
        };
        Status compiled = pipeline::compile(options, hooks).takeStatus();
        return compiled ? outcome : outcomeOf(compiled);
      },
      &site);
}

} // namespace tenon::debug

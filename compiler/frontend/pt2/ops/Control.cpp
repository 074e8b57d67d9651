// Operators of higher order, whose graphs are imported in place. Where data decide whether a branch
// is taken or an iteration runs, it is imported all the same and its results are selected.
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// Iterations of a loop whose end nothing but data decides.
constexpr int64_t kMaxIterations = 1024;

const Graph *graphAt(Call &c, size_t index) {
  const Argument *given = c.positional(index);
  if (!given || given->kind != Argument::Kind::Graph || !given->graph) {
    c.error(ErrorId::Pt2BadGraph, "its argument " + Twine(index) + " is not a graph");
    return nullptr;
  }
  return given->graph.get();
}

/// What the elements of a list argument stand for.
std::vector<Value> valuesAt(Call &c, size_t index) {
  std::vector<Value> values;
  const Argument *given = c.positional(index);
  for (const Argument &element : given ? given->elements : std::vector<Argument>()) {
    if (element.isName()) {
      Value *value = c.find(element);
      values.push_back(value ? *value : Value());
    } else {
      values.push_back({.size = c.constantSize(element.integer)});
    }
  }
  return values;
}

/// A value of its own, so that what a graph writes is not written to its caller's tensor.
Value copied(Call &c, const Value &value) {
  Value copy = value;
  if (value.tensor) {
    copy.tensor = std::make_shared<Tensor>(value.tensor->value(c));
  }
  return copy;
}

mlir::Value tensorOf(Call &c, const Value &value) {
  return value.tensor ? value.tensor->value(c)
         : value.size ? c.materialize(Sizes::scalar(value.size), c.builder().getI64Type())
                      : mlir::Value();
}

/// `a` where the condition holds, else `b`.
Value chosen(Call &c, mlir::Value condition, const Value &a, const Value &b) {
  if (a.size && b.size && tn::sameDim(a.size, b.size)) {
    return a;
  }
  mlir::Value left = tensorOf(c, a), right = tensorOf(c, b);
  if (left && left == right) {
    return {.tensor = std::make_shared<Tensor>(left)};
  }
  mlir::Value y = c.select(condition, left, right);
  return y ? Value{.tensor = std::make_shared<Tensor>(y)} : Value();
}

/// A condition: known, or a scalar of bool.
struct Condition {
  std::optional<bool> known;
  mlir::Value value;
};

Condition conditionOf(Call &c, const Value &value) {
  Condition result;
  if (value.truth) {
    result.known = *value.truth;
  } else if (value.claim) {
    auto [left, predicate, right] = *value.claim;
    bool isStrict = predicate == tn::Predicate::lt || predicate == tn::Predicate::gt;
    bool swaps = predicate == tn::Predicate::gt || predicate == tn::Predicate::ge;
    frontend::Comparison comparison =
        predicate == tn::Predicate::eq || predicate == tn::Predicate::ne
            ? frontend::Comparison::Equal
        : isStrict ? frontend::Comparison::Less
                   : frontend::Comparison::LessOrEqual;
    result.known = swaps ? c.symbols().compare(right, comparison, left)
                         : c.symbols().compare(left, comparison, right);
    if (result.known && predicate == tn::Predicate::ne) {
      result.known = !*result.known;
    }
    Type index = c.builder().getI64Type();
    result.value = c.compare(c.sizeValue(left, index), predicate, c.sizeValue(right, index));
  } else if (value.tensor) {
    result.value = c.reshape(c.cast(value.tensor->value(c), c.builder().getI1Type()), {});
    result.known = result.value ? c.importer().constantTruth(result.value) : std::nullopt;
  }
  return result;
}

void cond(Call &c) {
  const Argument *predicate = c.positional(0);
  Value given;
  if (predicate && predicate->isName()) {
    Value *found = c.find(*predicate);
    given = found ? *found : Value();
  } else if (predicate) {
    given.truth = predicate->integer != 0;
  }
  const Graph *whenTrue = graphAt(c, 1), *whenFalse = graphAt(c, 2);
  std::vector<Value> operands = valuesAt(c, 3);
  Condition condition = conditionOf(c, given);
  if (c.failed() || !whenTrue || !whenFalse) {
    return;
  }
  std::vector<Value> results[2];
  for (bool branch : {true, false}) {
    if (condition.known && *condition.known != branch) {
      continue;
    }
    std::vector<Value> own;
    for (const Value &operand : operands) {
      own.push_back(copied(c, operand));
    }
    Result<std::vector<Value>> imported =
        c.importer().importGraph(branch ? *whenTrue : *whenFalse, own);
    if (!imported) {
      return c.importer().setError(imported.takeStatus());
    }
    results[branch] = std::move(*imported);
  }
  std::vector<Value> &some = results[condition.known.value_or(true)];
  for (unsigned i = 0; i < c.numOutputs() && i < some.size() && !c.failed(); ++i) {
    bool depends = some[i].isPoisoned() || (!condition.known && results[0][i].isPoisoned());
    if (depends) {
      return c.poison();
    }
    c.setValue(i, condition.known ? some[i]
                                  : chosen(c, condition.value, results[1][i], results[0][i]));
  }
}

/// A loop that is imported iteration by iteration. Where data may end it, there are two sets of
/// carried values: the real ones, which stay as they are once the loop has ended, and those of a
/// loop that went on, which tell when it must have ended.
class WhileLoop {
public:
  WhileLoop(Call &call, const Graph &testGraph, const Graph &bodyGraph, std::vector<Value> first,
            std::vector<Value> others)
      : c(call), test(testGraph), body(bodyGraph), real(std::move(first)), more(std::move(others)) {
    onward = real;
  }

  /// The carried values behind the loop; none after a failure.
  std::optional<std::vector<Value>> run();

private:
  std::optional<std::vector<Value>> import(const Graph &graph, const std::vector<Value> &carried);
  bool step();

  Call &c;
  const Graph &test;
  const Graph &body;
  std::vector<Value> real, onward, more;
  mlir::Value running; ///< null while nothing but constants has decided
};

std::optional<std::vector<Value>> WhileLoop::import(const Graph &graph,
                                                    const std::vector<Value> &carried) {
  std::vector<Value> operands;
  for (const Value &value : carried) {
    operands.push_back(copied(c, value));
  }
  operands.insert(operands.end(), more.begin(), more.end());
  Result<std::vector<Value>> results = c.importer().importGraph(graph, operands);
  if (!results) {
    c.importer().setError(results.takeStatus());
    return std::nullopt;
  }
  if (results->empty() ||
      llvm::any_of(*results, [](const Value &value) { return value.isPoisoned(); })) {
    c.poison();
    return std::nullopt;
  }
  return std::move(*results);
}

/// One iteration; false when there is none, or after a failure.
bool WhileLoop::step() {
  std::optional<std::vector<Value>> tested = import(test, onward);
  Condition condition = tested ? conditionOf(c, tested->front()) : Condition{false, {}};
  if (c.failed() || condition.known == false) {
    return false;
  }
  if (!condition.known || running) {
    tested = import(test, real);
    mlir::Value holds = tested ? conditionOf(c, tested->front()).value : mlir::Value();
    running = running ? c.make<tn::AndOp>(running, holds) : holds;
  }
  std::optional<std::vector<Value>> next = import(body, real);
  std::optional<std::vector<Value>> further = running ? import(body, onward) : next;
  if (!next || !further || c.failed()) {
    return false;
  }
  for (size_t i = 0; i < real.size() && i < next->size(); ++i) {
    real[i] = running ? chosen(c, running, (*next)[i], real[i]) : (*next)[i];
  }
  onward = std::move(*further);
  return !c.failed();
}

std::optional<std::vector<Value>> WhileLoop::run() {
  for (int64_t i = 0; step(); ++i) {
    if (i == kMaxIterations) {
      c.gap("how often the loop runs is not known, or is more than " + Twine(kMaxIterations) +
                " times",
            "bound the loop by a counter that is compared with a constant");
    }
  }
  return c.failed() ? std::nullopt : std::optional(real);
}

void whileLoop(Call &c) {
  const Graph *test = graphAt(c, 0), *body = graphAt(c, 1);
  std::vector<Value> carried = valuesAt(c, 2), more = valuesAt(c, 3);
  if (c.failed() || !test || !body) {
    return;
  }
  std::optional<std::vector<Value>> last =
      WhileLoop(c, *test, *body, std::move(carried), std::move(more)).run();
  for (unsigned i = 0; last && i < c.numOutputs() && i < last->size(); ++i) {
    // What a number became in the loop is a tensor to the program.
    mlir::Value value = tensorOf(c, (*last)[i]);
    c.setValue(i, value ? Value{.tensor = std::make_shared<Tensor>(value)} : (*last)[i]);
  }
}

//===--- Graphs over rows: map and scan ---===//

/// Every row of a tensor by itself.
mlir::Value row(Call &c, const Value &value, int64_t i) {
  mlir::Value x = value.tensor ? value.tensor->value(c) : mlir::Value();
  mlir::Value one = x ? c.sliceAxis(x, 0, c.constantSize(i), c.constantSize(1)) : x;
  return one ? c.reshape(one, ArrayRef(tn::getDims(one.getType())).drop_front()) : one;
}

/// How many rows the tensors have; none (after a gap) where that is not known.
std::optional<int64_t> countOfRows(Call &c, const std::vector<Value> &all) {
  mlir::Value x = all.empty() || !all[0].tensor ? mlir::Value() : all[0].tensor->value(c);
  RankedTensorType type = x ? cast<RankedTensorType>(x.getType()) : RankedTensorType();
  if (!type || type.getRank() == 0) {
    c.error(ErrorId::Pt2BadGraph, "it goes over no tensor");
  } else if (type.isDynamicDim(0) || type.getDimSize(0) == 0 ||
             type.getDimSize(0) > kMaxIterations) {
    c.gap("how many rows it goes over is not known, is zero, or is more than " +
              Twine(kMaxIterations),
          "fix that dimension at the export or with --shape, or write the computation for all rows "
          "at once (torch.vmap, torch.cumsum)");
  } else {
    return type.getDimSize(0);
  }
  return std::nullopt;
}

/// Imports the graph once for each row; what it gives beyond the carried values is stacked.
void overRows(Call &c, const Graph &graph, std::vector<Value> carried,
              const std::vector<Value> &rows, const std::vector<Value> &more) {
  std::optional<int64_t> count = countOfRows(c, rows);
  std::vector<SmallVector<mlir::Value>> stacks;
  for (int64_t i = 0; count && i < *count && !c.failed(); ++i) {
    std::vector<Value> operands;
    for (const Value &value : carried) {
      operands.push_back(copied(c, value));
    }
    for (const Value &value : rows) {
      operands.push_back({.tensor = std::make_shared<Tensor>(row(c, value, i))});
    }
    operands.insert(operands.end(), more.begin(), more.end());
    if (c.failed()) {
      return;
    }
    Result<std::vector<Value>> results = c.importer().importGraph(graph, operands);
    if (!results) {
      return c.importer().setError(results.takeStatus());
    }
    if (results->size() < carried.size() ||
        llvm::any_of(*results, [](const Value &value) { return value.isPoisoned(); })) {
      return c.poison();
    }
    std::copy_n(results->begin(), carried.size(), carried.begin());
    stacks.resize(results->size() - carried.size());
    for (size_t j = 0; j < stacks.size(); ++j) {
      mlir::Value y = tensorOf(c, (*results)[carried.size() + j]);
      tn::Dims dims = y ? tn::getDims(y.getType()) : tn::Dims();
      dims.insert(dims.begin(), c.constantSize(1));
      stacks[j].push_back(y ? c.reshape(y, dims) : y);
    }
  }
  for (unsigned i = 0; i < c.numOutputs() && !c.failed(); ++i) {
    if (i < carried.size()) {
      c.setValue(i, carried[i]);
    } else if (i - carried.size() < stacks.size()) {
      c.setOutput(i, c.concat(stacks[i - carried.size()], 0));
    }
  }
}

void map(Call &c) {
  const Graph *graph = graphAt(c, 0);
  std::vector<Value> rows = valuesAt(c, 1), more = valuesAt(c, 2);
  if (graph && !c.failed()) {
    overRows(c, *graph, {}, rows, more);
  }
}

void scan(Call &c) {
  const Graph *graph = graphAt(c, 0);
  std::vector<Value> carried = valuesAt(c, 1), rows = valuesAt(c, 2), more = valuesAt(c, 3);
  if (graph && !c.failed()) {
    overRows(c, *graph, std::move(carried), rows, more);
  }
}

//===--- Graphs with something around them that decides no number ---===//

/// What stands for an operand of such a graph, lists taken apart; options are none.
void addOperands(Call &c, const Argument &given, std::vector<Value> &operands) {
  if (given.isName()) {
    Value *value = c.find(given);
    operands.push_back(value ? *value : Value());
  } else if (given.kind == Argument::Kind::Int) {
    operands.push_back({.size = c.constantSize(given.integer)});
  } else if (given.kind == Argument::Kind::List) {
    for (const Argument &element : given.elements) {
      addOperands(c, element, operands);
    }
  }
}

/// The graph in its caller's place: what it writes is written to its caller's tensors. The operands
/// follow the graph; what stands before it and what has a name are options.
void inlined(Call &c) {
  const Graph *graph = nullptr;
  std::vector<Value> operands;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const Argument *given = c.positional(i);
    if (given->kind == Argument::Kind::Graph) {
      graph = graphAt(c, i);
    } else if (graph && c.node.inputs[i].name.empty()) {
      addOperands(c, *given, operands);
    }
  }
  if (!graph) {
    return c.error(ErrorId::Pt2BadGraph, "it has no graph");
  }
  Result<std::vector<Value>> results = c.importer().importGraph(*graph, operands);
  if (!results) {
    return c.importer().setError(results.takeStatus());
  }
  for (unsigned i = 0; i < c.numOutputs() && i < results->size() && !c.failed(); ++i) {
    (*results)[i].isPoisoned() ? c.poison() : c.setValue(i, (*results)[i]);
  }
}

/// wrap_with_autocast(device, type, enabled, caches, graph, ...).
void autocast(Call &c) {
  const Argument *device = c.positional(0), *type = c.positional(1), *enabled = c.positional(2);
  Autocast region;
  region.isCuda = device && device->text == "cuda";
  if (enabled && enabled->integer != 0) {
    std::optional<DType> given =
        type && type->kind == Argument::Kind::ScalarType ? dtypeOf(type->integer) : std::nullopt;
    DType lower = given.value_or(region.isCuda ? DType::F16 : DType::BF16);
    region.lower = dyn_cast_if_present<FloatType>(c.importer().elementType(lower));
  }
  Autocast before = c.importer().setAutocast(region);
  inlined(c);
  c.importer().setAutocast(before);
}

constexpr OpRow kControlOpRows[] = {
    {"higher_order.cond", cond},
    {"higher_order.while_loop", whileLoop},
    {"higher_order.map_impl", map},
    {"higher_order.scan", scan},
    {"higher_order.wrap_with_set_grad_enabled", inlined},
    {"higher_order.wrap_with_autocast", autocast},
    {"higher_order.hints_wrapper", inlined},
    {"higher_order.invoke_subgraph", inlined},
    {"higher_order.tag_activation_checkpoint", inlined},
    {"higher_order.strict_mode", inlined},
    {"higher_order.wrap", inlined},
};

} // namespace

ArrayRef<OpRow> controlRows() { return kControlOpRows; }

} // namespace tenon::pt2

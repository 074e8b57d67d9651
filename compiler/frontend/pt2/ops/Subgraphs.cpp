// Higher-order operators that run one graph: as it stands, or once for each entry of tensors. All
// are imported in place.
// Relies on entries being counted by constants where a graph runs more than once.
#include "compiler/frontend/pt2/ops/Subgraphs.h"

#include "compiler/frontend/common/Recurrent.h"

using namespace mlir;

namespace tenon::pt2 {

const Graph *graphAt(Call &c, size_t index) {
  const Argument *given = c.positional(index);
  if (!given || given->kind != Argument::Kind::Graph || !given->graph) {
    c.error(ErrorId::Pt2BadGraph, "its argument " + Twine(index) + " is no graph");
    return nullptr;
  }
  return given->graph.get();
}

std::vector<Value> valuesOf(Call &c, const Argument &argument) {
  switch (argument.kind) {
  case Argument::Kind::List: {
    std::vector<Value> values;
    for (const Argument &element : argument.elements) {
      llvm::append_range(values, valuesOf(c, element));
    }
    return values;
  }
  case Argument::Kind::Float:
    return {Value{.real = argument.real}};
  case Argument::Kind::Bool:
    return {Value{.truth = argument.integer != 0}};
  default:
    break;
  }
  if (!argument.isName()) {
    return {Value{.size = c.constantSize(argument.integer)}};
  }
  Value *value = c.find(argument);
  return {value ? *value : Value()};
}

std::vector<Value> valuesAt(Call &c, size_t index) {
  const Argument *given = c.positional(index);
  return given ? valuesOf(c, *given) : std::vector<Value>();
}

Value copied(Call &c, const Value &value) {
  Value copy = value;
  if (value.tensor) {
    copy.tensor = std::make_shared<Tensor>(value.tensor->value(c));
  }
  return copy;
}

namespace {

/// The outputs of a graph that is imported in place; none after a failure.
std::optional<std::vector<Value>> import(Call &c, const Graph &graph,
                                         const std::vector<Value> &inputs) {
  Result<std::vector<Value>> results = c.importer().importGraph(graph, inputs);
  if (!results) {
    c.importer().setError(results.takeStatus());
    return std::nullopt;
  }
  if (llvm::any_of(*results, [](const Value &value) { return value.isPoisoned(); })) {
    c.poison();
    return std::nullopt;
  }
  return std::move(*results);
}

/// The same with copies of `inputs` for its own.
std::optional<std::vector<Value>> importCopied(Call &c, const Graph &graph,
                                               ArrayRef<Value> inputs) {
  std::vector<Value> own;
  for (const Value &input : inputs) {
    own.push_back(copied(c, input));
  }
  return c.failed() ? std::nullopt : import(c, graph, own);
}

//===--- One graph as it stands ---===//

/// The graph is the first argument from `index` on, and all tensors and numbers behind it are its
/// inputs; names of regions among them say nothing about numbers.
void inlineFrom(Call &c, size_t index) {
  const Graph *graph = graphAt(c, index);
  std::vector<Value> operands;
  while (const Argument *given = c.positional(++index)) {
    if (given->kind != Argument::Kind::String) {
      llvm::append_range(operands, valuesOf(c, *given));
    }
  }
  std::optional<std::vector<Value>> results =
      c.failed() || !graph ? std::nullopt : import(c, *graph, operands);
  for (unsigned i = 0; results && i < c.numOutputs() && i < results->size(); ++i) {
    c.setValue(i, (*results)[i]);
  }
}

void wrap(Call &c) { inlineFrom(c, 0); }

/// The mode matters to training alone.
void setGradEnabled(Call &c) {
  c.positional(0);
  inlineFrom(c, 1);
}

/// torch writes the casts of autocast into the program only when it decomposes it.
void autocast(Call &c) {
  for (size_t i : {0, 1, 3}) {
    c.positional(i);
  }
  const Argument *enabled = c.positional(2);
  if (!enabled || enabled->kind != Argument::Kind::Bool || enabled->integer != 0) {
    return c.gap("the casts of torch.autocast are not part of the program",
                 "program = program.run_decompositions() writes them out; save that, or export "
                 "outside of autocast");
  }
  inlineFrom(c, 4);
}

//===--- Once for each entry ---===//

/// Longer tensors make programs that nobody waits for.
constexpr int64_t kMostEntries = 1024;

/// How many entries all of `xs` have; none after a gap.
std::optional<int64_t> countEntries(Call &c, ArrayRef<Value> xs) {
  std::optional<int64_t> count;
  for (const Value &x : xs) {
    mlir::Value tensor = x.tensor ? x.tensor->value(c) : mlir::Value();
    if (!tensor || x.imaginary) {
      c.gap("it runs over something else than real tensors");
      return std::nullopt;
    }
    count = tn::constantDim(tn::getDims(tensor.getType()).front());
    if (!count || *count < 1 || *count > kMostEntries) {
      c.gap("how many entries it runs over is not known, or is not between 1 and " +
                Twine(kMostEntries),
            "export with a fixed length of at most that, or write it as operations on whole "
            "tensors");
      return std::nullopt;
    }
  }
  return count;
}

Value tensorValue(mlir::Value value) { return {.tensor = std::make_shared<Tensor>(value)}; }

std::vector<Value> entriesAt(Call &c, ArrayRef<Value> xs, int64_t index) {
  std::vector<Value> entries;
  for (const Value &x : xs) {
    entries.push_back(tensorValue(frontend::pick(c, x.tensor->value(c), index)));
  }
  return entries;
}

/// Sets outputs from `first` on to what was given for each entry, one behind the other.
void setStacked(Call &c, unsigned first, ArrayRef<std::vector<Value>> given) {
  for (unsigned i = 0; !given.empty() && i < given.front().size() && !c.failed(); ++i) {
    SmallVector<mlir::Value> parts;
    for (const std::vector<Value> &values : given) {
      mlir::Value part = values[i].tensor ? values[i].tensor->value(c) : mlir::Value();
      if (!part) {
        return c.gap("its graph gives something else than tensors");
      }
      tn::Dims dims = tn::getDims(part.getType());
      dims.insert(dims.begin(), c.constantSize(1));
      parts.push_back(c.reshape(part, dims));
    }
    c.setValue(first + i, tensorValue(c.concat(parts, 0)));
  }
}

/// carry, y = graph(carry, x, more) for each entry x of the tensors; map has no carry.
void runForEach(Call &c, const Graph &graph, std::vector<Value> carried, ArrayRef<Value> xs,
                ArrayRef<Value> more) {
  std::optional<int64_t> count = countEntries(c, xs);
  std::vector<std::vector<Value>> given;
  size_t carries = carried.size();
  for (int64_t i = 0; count && i < *count && !c.failed(); ++i) {
    std::vector<Value> inputs = carried;
    llvm::append_range(inputs, entriesAt(c, xs, i));
    llvm::append_range(inputs, more);
    std::optional<std::vector<Value>> results = importCopied(c, graph, inputs);
    if (!results || results->size() < carries) {
      return;
    }
    carried.assign(results->begin(), results->begin() + carries);
    given.emplace_back(results->begin() + carries, results->end());
  }
  for (unsigned i = 0; i < carries && !c.failed(); ++i) {
    c.setValue(i, carried[i]);
  }
  setStacked(c, carries, given);
}

void map(Call &c) {
  const Graph *graph = graphAt(c, 0);
  std::vector<Value> xs = valuesAt(c, 1), more = valuesAt(c, 2);
  if (graph && !c.failed()) {
    runForEach(c, *graph, {}, xs, more);
  }
}

void scan(Call &c) {
  const Graph *graph = graphAt(c, 0);
  std::vector<Value> initial = valuesAt(c, 1), xs = valuesAt(c, 2), more = valuesAt(c, 3);
  if (graph && !c.failed()) {
    runForEach(c, *graph, std::move(initial), xs, more);
  }
}

constexpr OpRow kRows[] = {
    {"higher_order.wrap", wrap},
    {"higher_order.wrap_with_set_grad_enabled", setGradEnabled},
    {"higher_order.wrap_with_autocast", autocast},
    {"higher_order.tag_activation_checkpoint", wrap},
    {"higher_order.strict_mode", wrap},
    {"higher_order.invoke_subgraph", wrap},
    {"higher_order.map_impl", map},
    {"higher_order.scan", scan},
};

} // namespace

ArrayRef<OpRow> subgraphRows() { return kRows; }

} // namespace tenon::pt2

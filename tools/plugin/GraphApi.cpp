// The table of functions. Each asks the graph and keeps what it gave, or why it gave nothing, for
// the caller, who holds no object of ours.

#include "tools/plugin/GraphApi.h"

#include "compiler/rewrite/Graph.h"
#include "support/text/Text.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <cstring>

struct tenon_graph {
  tenon::rewrite::Graph &graph;
  std::string error;   ///< of the last call that failed
  std::string failure; ///< what the pass said
  std::string text;    ///< what the last call gave
};

namespace tenon::tool {
namespace {

using rewrite::Graph;
using rewrite::Id;

llvm::StringRef textOf(const char *text) { return text ? llvm::StringRef(text) : ""; }

/// Keeps why a call failed, or that it did not.
bool holds(tenon_graph *graph, const Status &status) {
  graph->error = status                  ? ""
                 : status.hint().empty() ? std::string(status.message())
                                         : strCat(status.message(), " (", status.hint(), ')');
  return status.isOk();
}

/// The value of a result, or `otherwise`.
template <typename T> T valueOr(tenon_graph *graph, const Result<T> &result, T otherwise) {
  return holds(graph, result.status()) ? *result : otherwise;
}

const char *give(tenon_graph *graph, Result<std::string> text) {
  if (!holds(graph, text.status())) {
    return nullptr;
  }
  graph->text = std::move(*text);
  return graph->text.c_str();
}

const char *give(tenon_graph *graph, std::optional<std::string> text) {
  return text ? give(graph, Result<std::string>(std::move(*text))) : nullptr;
}

size_t give(tenon_graph *graph, const Result<std::vector<Id>> &list, uint64_t *out, size_t room) {
  if (!holds(graph, list.status())) {
    return 0;
  }
  std::copy_n(list->begin(), std::min(room, list->size()), out);
  return list->size();
}

std::optional<llvm::ArrayRef<int64_t>> symbolsOf(const int64_t *symbols, size_t count) {
  return symbols ? std::optional(llvm::ArrayRef<int64_t>(symbols, count)) : std::nullopt;
}

//===--- One function an entry of the table ---===//

const char *error(tenon_graph *g) { return g->error.c_str(); }
void fail(tenon_graph *g, const char *reason) { g->failure = textOf(reason); }

const char *symbols(tenon_graph *g) { return give(g, Result<std::string>(g->graph.symbols())); }
size_t nodes(tenon_graph *g, tenon_node *out, size_t room) {
  return give(g, g->graph.nodes(), out, room);
}
size_t inputs(tenon_graph *g, tenon_value *out, size_t room) {
  return give(g, g->graph.inputs(), out, room);
}
size_t outputs(tenon_graph *g, tenon_value *out, size_t room) {
  return give(g, g->graph.outputs(), out, room);
}
const char *inputName(tenon_graph *g, size_t index) { return give(g, g->graph.inputName(index)); }
const char *outputName(tenon_graph *g, size_t index) { return give(g, g->graph.outputName(index)); }

const char *op(tenon_graph *g, tenon_node node) { return give(g, g->graph.op(node)); }
const char *name(tenon_graph *g, tenon_node node) { return give(g, g->graph.name(node)); }
const char *source(tenon_graph *g, tenon_node node) { return give(g, g->graph.source(node)); }
const char *attributes(tenon_graph *g, tenon_node node) {
  return give(g, g->graph.attributes(node));
}
const char *attribute(tenon_graph *g, tenon_node node, const char *wanted) {
  return give(g, g->graph.attribute(node, textOf(wanted)));
}
size_t operands(tenon_graph *g, tenon_node node, tenon_value *out, size_t room) {
  return give(g, g->graph.operands(node), out, room);
}
size_t results(tenon_graph *g, tenon_node node, tenon_value *out, size_t room) {
  return give(g, g->graph.results(node), out, room);
}
int64_t flops(tenon_graph *g, tenon_node node, const int64_t *values, size_t count) {
  return valueOr<int64_t>(g, g->graph.flops(node, symbolsOf(values, count)), -1);
}
int64_t bytes(tenon_graph *g, tenon_node node, const int64_t *values, size_t count) {
  return valueOr<int64_t>(g, g->graph.bytes(node, symbolsOf(values, count)), -1);
}

tenon_node producer(tenon_graph *g, tenon_value value) {
  return valueOr<Id>(g, g->graph.producer(value), 0);
}
size_t users(tenon_graph *g, tenon_value value, tenon_node *out, size_t room) {
  return give(g, g->graph.users(value), out, room);
}
const char *type(tenon_graph *g, tenon_value value) { return give(g, g->graph.type(value)); }
int64_t data(tenon_graph *g, tenon_value value, void *out, size_t room) {
  Result<std::vector<char>> contents = g->graph.data(value);
  if (!holds(g, contents.status())) {
    return -1;
  }
  if (size_t count = std::min(room, contents->size()); count > 0) {
    std::memcpy(out, contents->data(), count);
  }
  return static_cast<int64_t>(contents->size());
}

size_t matches(tenon_graph *g, const char *pattern, tenon_node *out, size_t room) {
  return give(g, g->graph.matches(textOf(pattern)), out, room);
}
int32_t match(tenon_graph *g, const char *pattern, tenon_node node) {
  Result<bool> found = g->graph.match(textOf(pattern), node);
  return holds(g, found.status()) ? *found : -1;
}
tenon_value captured(tenon_graph *g, const char *wanted) {
  return valueOr<Id>(g, g->graph.captured(textOf(wanted)), 0);
}

tenon_node create(tenon_graph *g, const char *op, const tenon_value *operandList, size_t count,
                  const char *attributeText, const char *types) {
  return valueOr<Id>(g,
                     g->graph.create(textOf(op), llvm::ArrayRef<Id>(operandList, count),
                                     textOf(attributeText), textOf(types)),
                     0);
}
tenon_value constant(tenon_graph *g, const char *typeText, const void *contents, size_t size) {
  llvm::ArrayRef<char> given(static_cast<const char *>(contents), size);
  return valueOr<Id>(g, g->graph.constant(textOf(typeText), given), 0);
}
int32_t replace(tenon_graph *g, tenon_value value, tenon_value with) {
  return holds(g, g->graph.replace(value, with)) ? 0 : -1;
}
int32_t setOperand(tenon_graph *g, tenon_node node, size_t index, tenon_value value) {
  return holds(g, g->graph.setOperand(node, index, value)) ? 0 : -1;
}
int32_t setAttributes(tenon_graph *g, tenon_node node, const char *text) {
  return holds(g, g->graph.setAttributes(node, textOf(text))) ? 0 : -1;
}
int32_t addOutput(tenon_graph *g, tenon_value value, const char *outputName) {
  return holds(g, g->graph.addOutput(value, textOf(outputName))) ? 0 : -1;
}
int32_t erase(tenon_graph *g, tenon_node node) { return holds(g, g->graph.erase(node)) ? 0 : -1; }

constexpr tenon_graph_api kApi = {
    .struct_size = sizeof(tenon_graph_api),
    .error = error,
    .fail = fail,
    .symbols = symbols,
    .nodes = nodes,
    .inputs = inputs,
    .outputs = outputs,
    .input_name = inputName,
    .output_name = outputName,
    .op = op,
    .name = name,
    .source = source,
    .attributes = attributes,
    .attribute = attribute,
    .operands = operands,
    .results = results,
    .flops = flops,
    .bytes = bytes,
    .producer = producer,
    .users = users,
    .type = type,
    .data = data,
    .matches = matches,
    .match = match,
    .captured = captured,
    .create = create,
    .constant = constant,
    .replace = replace,
    .set_operand = setOperand,
    .set_attributes = setAttributes,
    .add_output = addOutput,
    .erase = erase,
};

} // namespace

pipeline::UserPass userPassOf(const tenon_pass &pass) {
  pipeline::UserPass own;
  own.name = pass.name;
  own.phase = llvm::StringRef(pass.phase) == "optimize" ? pipeline::Phase::Optimize
                                                        : pipeline::Phase::Normalize;
  own.tolerance = pass.tolerance;
  own.run = [run = pass.run, user = pass.user](Graph &graph) -> Status {
    tenon_graph handle{graph, {}, {}, {}};
    if (run(&handle, &kApi, user) == 0) {
      return Status::ok();
    }
    if (!handle.failure.empty()) {
      return Status::error(ErrorId::UserPassFailed, handle.failure);
    }
    return handle.error.empty()
               ? Status::error(ErrorId::UserPassFailed, "it failed without a message")
               : Status::error(ErrorId::BadGraphEdit, handle.error);
  };
  return own;
}

} // namespace tenon::tool

// A thin C++ layer over graph.h, for plug-ins: the same calls, with exceptions for what fails.
// Header-only, and nothing to link; graph.h says what each call means. docs/guides/passes.md has a guide.
//
// Example (a part of examples/passes.cpp):
//
//     #include <tenon/graph.hpp>
//
//     static void reluToGelu(tenon::Graph &graph) {
//       for (const tenon::Match &match : graph.match("relu(x)")) {
//         graph.replace(match.result(), graph.create("gelu", {match["x"]}));
//       }
//     }
//
//     TENON_PLUGIN("activations", tenon::pass<reluToGelu>("relu-to-gelu", "normalize", INFINITY))

#ifndef TENON_GRAPH_HPP
#define TENON_GRAPH_HPP

#include <tenon/graph.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace tenon {

using Node = tenon_node;
using Value = tenon_value;

/// What a call throws that is refused; a pass that does not catch it fails with its text.
class GraphError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class Graph;

/// A node at which a pattern matches.
class Match {
public:
  Match(Graph &owner, std::string text, Node root)
      : graph(&owner), pattern(std::move(text)), node(root) {}

  Node root() const { return node; }
  /// The root's first result.
  Value result() const;
  /// The value that a name of the pattern stands for. To be asked while this match is the last one
  /// looked at.
  Value operator[](const std::string &name) const;

private:
  Graph *graph;
  std::string pattern;
  Node node;
};

class Graph {
public:
  Graph(tenon_graph *graph, const tenon_graph_api *functions) : handle(graph), api(functions) {}

  std::vector<Node> nodes() { return list(api->nodes); }
  std::vector<Value> inputs() { return list(api->inputs); }
  std::vector<Value> outputs() { return list(api->outputs); }
  std::string symbols() { return text(api->symbols(handle)); }

  std::string op(Node node) { return text(api->op(handle, node)); }
  std::string name(Node node) { return text(api->name(handle, node)); }
  std::string attributes(Node node) { return text(api->attributes(handle, node)); }
  std::string attribute(Node node, const std::string &name) {
    return text(api->attribute(handle, node, name.c_str()));
  }
  std::vector<Value> operands(Node node) { return list(api->operands, node); }
  std::vector<Value> results(Node node) { return list(api->results, node); }
  Value result(Node node) { return results(node).at(0); }
  /// At the smallest sizes of the model's symbols.
  int64_t flops(Node node) { return number(api->flops(handle, node, nullptr, 0)); }
  int64_t bytes(Node node) { return number(api->bytes(handle, node, nullptr, 0)); }

  Node producer(Value value) { return api->producer(handle, value); }
  std::vector<Node> users(Value value) { return list(api->users, value); }
  std::string type(Value value) { return text(api->type(handle, value)); }
  /// A constant's elements; T must be its element type.
  template <typename T> std::vector<T> data(Value value) {
    int64_t size = number(api->data(handle, value, nullptr, 0));
    std::vector<T> elements(static_cast<size_t>(size) / sizeof(T));
    number(api->data(handle, value, elements.data(), elements.size() * sizeof(T)));
    return elements;
  }

  /// The nodes where the pattern matches, in order. What an edit has undone since matches no more:
  /// see `holds`.
  std::vector<Match> match(const std::string &pattern) {
    std::vector<Node> roots(api->matches(handle, pattern.c_str(), nullptr, 0));
    api->matches(handle, pattern.c_str(), roots.data(), roots.size());
    if (*api->error(handle)) {
      refuse();
    }
    std::vector<Match> found;
    for (Node root : roots) {
      found.emplace_back(*this, pattern, root);
    }
    return found;
  }
  /// Whether the pattern matches at the node, whose captures then count.
  bool holds(const std::string &pattern, Node node) {
    int32_t found = api->match(handle, pattern.c_str(), node);
    if (found < 0) {
      refuse();
    }
    return found == 1;
  }
  Value captured(const std::string &name) { return checked(api->captured(handle, name.c_str())); }

  /// A node with one result. `attributes` and `types` are JSON.
  Value create(const std::string &op, const std::vector<Value> &operands,
               const std::string &attributes = "", const std::string &types = "") {
    return result(checked(api->create(handle, op.c_str(), operands.data(), operands.size(),
                                      attributes.c_str(), types.c_str())));
  }
  template <typename T> Value constant(const std::string &type, const std::vector<T> &elements) {
    return checked(
        api->constant(handle, type.c_str(), elements.data(), elements.size() * sizeof(T)));
  }
  void replace(Value value, Value with) { done(api->replace(handle, value, with)); }
  void setOperand(Node node, size_t index, Value value) {
    done(api->set_operand(handle, node, index, value));
  }
  void setAttributes(Node node, const std::string &attributes) {
    done(api->set_attributes(handle, node, attributes.c_str()));
  }
  void addOutput(Value value, const std::string &name) {
    done(api->add_output(handle, value, name.c_str()));
  }
  void erase(Node node) { done(api->erase(handle, node)); }

private:
  [[noreturn]] void refuse() { throw GraphError(api->error(handle)); }
  void done(int32_t code) {
    if (code != 0) {
      refuse();
    }
  }
  int64_t number(int64_t value) {
    if (value < 0) {
      refuse();
    }
    return value;
  }
  uint64_t checked(uint64_t id) {
    if (id == 0) {
      refuse();
    }
    return id;
  }
  std::string text(const char *given) {
    if (!given) {
      refuse();
    }
    return given;
  }
  template <typename Function, typename... Of>
  std::vector<uint64_t> list(Function function, Of... of) {
    std::vector<uint64_t> ids(function(handle, of..., nullptr, 0));
    function(handle, of..., ids.data(), ids.size());
    if (*api->error(handle)) {
      refuse();
    }
    return ids;
  }

  tenon_graph *handle;
  const tenon_graph_api *api;
};

inline Value Match::result() const { return graph->result(node); }
inline Value Match::operator[](const std::string &name) const {
  if (!graph->holds(pattern, node)) {
    throw GraphError("an edit since has undone the match");
  }
  return graph->captured(name);
}

namespace detail {
template <void (*run)(Graph &)>
int32_t guarded(tenon_graph *handle, const tenon_graph_api *api, void *) {
  try {
    Graph graph(handle, api);
    run(graph);
    return 0;
  } catch (const std::exception &error) {
    api->fail(handle, error.what());
    return 1;
  }
}
} // namespace detail

/// A function as a pass; what it throws makes the pass fail.
template <void (*run)(Graph &)>
constexpr tenon_pass pass(const char *name, const char *phase, double tolerance = 0) {
  return {sizeof(tenon_pass), name, phase, tolerance, detail::guarded<run>, nullptr};
}

} // namespace tenon

/// Exports passes, which run in this order.
#define TENON_PLUGIN(NAME, ...)                                                                    \
  extern "C" __attribute__((visibility("default"))) const tenon_plugin *tenon_plugin_query(        \
      uint32_t abi) {                                                                              \
    static const tenon_pass passes[] = {__VA_ARGS__};                                              \
    static const tenon_plugin plugin = {sizeof(tenon_plugin), TENON_GRAPH_ABI, NAME, passes,       \
                                        sizeof(passes) / sizeof(passes[0])};                       \
    return abi == TENON_GRAPH_ABI ? &plugin : nullptr;                                             \
  }

#endif

/* Tenon's C interface to the graph of a model, for user passes: they inspect its nodes, match patterns
 * and change the graph during compilation.
 *
 * A pass is a function that Tenon calls with the graph and a table of the functions below, so providers of
 * passes link to nothing. A plug-in is a shared object that exports tenon_plugin_query; give it to
 * `tenon compile --plugin`, or in tenon_compile_options.plugins. A program can pass its own functions in
 * tenon_compile_options.passes.
 *
 * The graph.  Nodes are operations of `tn` (docs/ops), each after those whose results it reads. Constants are
 *             nodes of the operation "constant". A value has a type: an element type and dims, which are
 *             numbers or expressions over the model's symbols. Nodes and values are identified by numbers,
 *             which are never reused within a pass; 0 means none. Using an erased node is an error.
 * Edits.      Each edit is checked first; a refused one changes nothing. New nodes are placed after their
 *             operands; Tenon restores the order of the others. A node without readers is removed after
 *             the pass.
 * Checks.     After a pass, Tenon verifies the types and compares the model's outputs on seeded inputs with
 *             those before it, using the reference interpreter. If the pass fails this check, the
 *             compilation ends with TN0406, and the graph before the pass is written to a folder.
 * Text.       UTF-8; valid until the next call with the same graph.
 * Threads.    A graph belongs to the thread in which the pass is called, until the pass returns.
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It grows by members at the end of its structs; struct_size shows whether
 * they exist. The number changes only with other changes. */
#define TENON_GRAPH_ABI 1u

typedef struct tenon_graph tenon_graph;
typedef uint64_t tenon_node;
typedef uint64_t tenon_value;

/* Functions for lists write at most `room` elements and return the number of all elements. Functions for
 * text return NULL if there is no text. A function that fails, for example for an erased node, returns NULL,
 * 0 or -1; `error` then has the reason. */
typedef struct tenon_graph_api {
  size_t struct_size;

  /* Why the last call of another function failed; "" if it did not. */
  const char *(*error)(tenon_graph *graph);
  /* Sets the reason for which the pass fails; its function then returns a value other than 0. */
  void (*fail)(tenon_graph *graph, const char *reason);

  /* The whole graph. Symbols as JSON: [{"name": "batch", "min": 1, "max": 64}]. */
  const char *(*symbols)(tenon_graph *graph);
  size_t (*nodes)(tenon_graph *graph, tenon_node *nodes, size_t room);
  size_t (*inputs)(tenon_graph *graph, tenon_value *values, size_t room);
  size_t (*outputs)(tenon_graph *graph, tenon_value *values, size_t room);
  const char *(*input_name)(tenon_graph *graph, size_t index);
  const char *(*output_name)(tenon_graph *graph, size_t index);

  /* A node: its operation ("conv"), its name in the model, the line of the model's program ("model.py:12"), its
   * attributes as JSON ({"axis": 1, "kind": "sum"}), one of them ("1"), its operands (0 for a missing optional
   * one) and its results. */
  const char *(*op)(tenon_graph *graph, tenon_node node);
  const char *(*name)(tenon_graph *graph, tenon_node node);
  const char *(*source)(tenon_graph *graph, tenon_node node);
  const char *(*attributes)(tenon_graph *graph, tenon_node node);
  const char *(*attribute)(tenon_graph *graph, tenon_node node, const char *name);
  size_t (*operands)(tenon_graph *graph, tenon_node node, tenon_value *values, size_t room);
  size_t (*results)(tenon_graph *graph, tenon_node node, tenon_value *values, size_t room);
  /* Arithmetic operations (a multiply-add counts as two), and bytes of operands and results, for these values
   * of the symbols in their order; NULL means the smallest values. -1 if it is unknown. */
  int64_t (*flops)(tenon_graph *graph, tenon_node node, const int64_t *symbols, size_t count);
  int64_t (*bytes)(tenon_graph *graph, tenon_node node, const int64_t *symbols, size_t count);

  /* A value: its node (0 for an input of the model), the nodes that read it, and its type as JSON:
   * {"dtype": "f32", "dims": [1, "batch", "2 * seq"]}. */
  tenon_node (*producer)(tenon_graph *graph, tenon_value value);
  size_t (*users)(tenon_graph *graph, tenon_value value, tenon_node *nodes, size_t room);
  const char *(*type)(tenon_graph *graph, tenon_value value);
  /* The bytes of a constant, row-major and little-endian, one byte per bool; -1 for other values. */
  int64_t (*data)(tenon_graph *graph, tenon_value value, void *bytes, size_t room);

  /* Patterns: "y:relu(batch_norm(conv(x, w, ...), scale, bias, mean, var))".
   *   name              any value; the same name twice is the same value
   *   _                 any value
   *   op(...)           the result of such a node with exactly these operands; op|op matches either
   *   ...               more operands, at the end
   *   key=value         an attribute, in the parentheses: axis=1, kind=sum, pads=[1, 1, 1, 1]
   *   1.5               a constant whose elements all have that value
   *   name:op(...)      also gives the result a name
   * Operands of add, mul and the like match in either order. `matches` returns the matching nodes in
   * order. `match` says whether a node still matches; `captured` then returns the values of its names.
   * Nodes created afterwards count as derived from the matched ones. */
  size_t (*matches)(tenon_graph *graph, const char *pattern, tenon_node *nodes, size_t room);
  int32_t (*match)(tenon_graph *graph, const char *pattern,
                   tenon_node node); /* 1, 0; -1 is an error */
  tenon_value (*captured)(tenon_graph *graph, const char *name);

  /* Edits. `attributes` is JSON as above, or NULL; flags that are off may be omitted. `types` is a JSON list of the
   * results' types; NULL if they follow from operands and attributes, as for most operations. */
  tenon_node (*create)(tenon_graph *graph, const char *op, const tenon_value *operands,
                       size_t count, const char *attributes, const char *types);
  /* A constant of this type from its bytes, in the layout of `data`. */
  tenon_value (*constant)(tenon_graph *graph, const char *type, const void *bytes, size_t size);
  /* Readers of `value` read `with` instead, except nodes from which `with` is computed. Both have one type. */
  int32_t (*replace)(tenon_graph *graph, tenon_value value, tenon_value with);
  int32_t (*set_operand)(tenon_graph *graph, tenon_node node, size_t index, tenon_value value);
  /* Changes the given attributes. The types of the results must not change. */
  int32_t (*set_attributes)(tenon_graph *graph, tenon_node node, const char *attributes);
  /* Adds the value to the outputs of the model, after the others. */
  int32_t (*add_output)(tenon_graph *graph, tenon_value value, const char *name);
  /* Removes a node whose results have no readers. */
  int32_t (*erase)(tenon_graph *graph, tenon_node node);
} tenon_graph_api;

typedef struct tenon_pass {
  size_t struct_size;
  const char *name; /* [a-z0-9-]+, for messages and records */
  /* "normalize": the model's own operations, before Tenon's passes. "optimize": after them, when norms,
   * activations and attention are single operations. */
  const char *phase;
  /* How much an output may change, relative to its largest element. 0 allows only rounding. With
   * infinity, the change is only measured and reported. With a negative value, nothing is run. */
  double tolerance;
  /* Returns 0 on success. Each compilation calls it, in its own thread. */
  int32_t (*run)(tenon_graph *graph, const tenon_graph_api *api, void *user);
  void *user; /* passed to it */
} tenon_pass;

typedef struct tenon_plugin {
  size_t struct_size;
  uint32_t abi; /* TENON_GRAPH_ABI of the header it was built with */
  const char *name;
  const tenon_pass *passes; /* run in this order; valid as long as the process */
  size_t pass_count;
} tenon_plugin;

/* What a plug-in exports under the name tenon_plugin_query. Returns its description, which is valid as long
 * as the process, or NULL if it does not support this version. */
typedef const tenon_plugin *(*tenon_plugin_query_fn)(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif

/* Tenon's C interface to the graph of a model, for passes of the user's own: they look at its nodes, match
 * patterns and change it while it is compiled.
 *
 * A pass is a function that Tenon calls with the graph and this interface as a table of functions, so that
 * whoever provides passes links nothing: a plug-in is a shared object that exports tenon_plugin_query,
 * given to `tenon compile --plugin`, or in tenon_compile_options.plugins; a program passes functions of
 * its own in tenon_compile_options.passes.
 *
 * The graph.  Nodes are operations of `tn` (docs/ops), each after those whose results it reads; constants are
 *             nodes too, of the operation "constant". Values have a type: an element type and dims, which are
 *             numbers or expressions over the model's symbols. Nodes and values are numbers, never reused
 *             within a pass; 0 is none. What was erased is refused, not undefined.
 * Edits.      Each is checked before it is done; one that is refused changes nothing. New nodes
 *             stand where their operands are known; the order of the others is Tenon's to mend. A node
 *             whose results nobody reads is removed when the pass is done.
 * Checks.     After a pass its types are verified, and the model's outputs on seeded inputs are
 *             compared with those before it, by the reference interpreter. A pass that does not
 *             hold ends the compilation with TN0406; the graph before it is written to a folder.
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

/* The version of this interface. It grows by members at the end of its structs, which tell by struct_size
 * whether they are there; the number changes when something else does. */
#define TENON_GRAPH_ABI 1u

typedef struct tenon_graph tenon_graph;
typedef uint64_t tenon_node;
typedef uint64_t tenon_value;

/* Functions that give a list write at most `room` elements and give the number of all. Functions that give
 * text give NULL where there is none. Any of them may fail, as for a node that was erased: it gives NULL, 0 or
 * -1 then, and `error` says why. */
typedef struct tenon_graph_api {
  size_t struct_size;

  /* Why the last call of another function failed; "" if it did not. */
  const char *(*error)(tenon_graph *graph);
  /* Says why the pass fails, whose function then returns anything but 0. */
  void (*fail)(tenon_graph *graph, const char *reason);

  /* The whole graph. Symbols as JSON: [{"name": "batch", "min": 1, "max": 64}]. */
  const char *(*symbols)(tenon_graph *graph);
  size_t (*nodes)(tenon_graph *graph, tenon_node *nodes, size_t room);
  size_t (*inputs)(tenon_graph *graph, tenon_value *values, size_t room);
  size_t (*outputs)(tenon_graph *graph, tenon_value *values, size_t room);
  const char *(*input_name)(tenon_graph *graph, size_t index);
  const char *(*output_name)(tenon_graph *graph, size_t index);

  /* A node: its operation ("conv"), its name in the model, the line of the model's program ("model.py:12"), its
   * attributes as JSON ({"axis": 1, "kind": "sum"}), one of them ("1"), operands (0 for an optional one that is
   * not there) and results. */
  const char *(*op)(tenon_graph *graph, tenon_node node);
  const char *(*name)(tenon_graph *graph, tenon_node node);
  const char *(*source)(tenon_graph *graph, tenon_node node);
  const char *(*attributes)(tenon_graph *graph, tenon_node node);
  const char *(*attribute)(tenon_graph *graph, tenon_node node, const char *name);
  size_t (*operands)(tenon_graph *graph, tenon_node node, tenon_value *values, size_t room);
  size_t (*results)(tenon_graph *graph, tenon_node node, tenon_value *values, size_t room);
  /* Arithmetic operations (a multiply-add is two) and bytes of operands and results, for these values of the
   * symbols, in their order; NULL stands for the smallest. -1 where it is not known. */
  int64_t (*flops)(tenon_graph *graph, tenon_node node, const int64_t *symbols, size_t count);
  int64_t (*bytes)(tenon_graph *graph, tenon_node node, const int64_t *symbols, size_t count);

  /* A value: its node (0 for an input of the model), the nodes that read it, and its type as JSON:
   * {"dtype": "f32", "dims": [1, "batch", "2 * seq"]}. */
  tenon_node (*producer)(tenon_graph *graph, tenon_value value);
  size_t (*users)(tenon_graph *graph, tenon_value value, tenon_node *nodes, size_t room);
  const char *(*type)(tenon_graph *graph, tenon_value value);
  /* The bytes of a constant, row-major and little-endian, one a bool; -1 for another value. */
  int64_t (*data)(tenon_graph *graph, tenon_value value, void *bytes, size_t room);

  /* Patterns: "y:relu(batch_norm(conv(x, w, ...), scale, bias, mean, var))".
   *   name              any value; the same name twice is the same value
   *   _                 any value
   *   op(...)           the result of such a node with just these operands; op|op is either of them
   *   ...               further operands, at the end
   *   key=value         in the parentheses: an attribute: axis=1, kind=sum, pads=[1, 1, 1, 1]
   *   1.5               a constant all of whose elements are that number
   *   name:op(...)      also names the result
   * Operands of add, mul and their like match in either order. matches gives the nodes at which it
   * matches, in order; match whether it still does at that node, and then captured the values of
   * its names. Nodes created afterwards count as made from the matched ones. */
  size_t (*matches)(tenon_graph *graph, const char *pattern, tenon_node *nodes, size_t room);
  int32_t (*match)(tenon_graph *graph, const char *pattern,
                   tenon_node node); /* 1, 0; -1 is an error */
  tenon_value (*captured)(tenon_graph *graph, const char *name);

  /* Edits. `attributes` is JSON as above, NULL for none; an attribute whose flag is off may be left out. `types` is a
   * JSON list of the results' types; NULL where they follow from operands and attributes, as they do for most. */
  tenon_node (*create)(tenon_graph *graph, const char *op, const tenon_value *operands,
                       size_t count, const char *attributes, const char *types);
  /* A constant of that type from its bytes, as `data` gives them. */
  tenon_value (*constant)(tenon_graph *graph, const char *type, const void *bytes, size_t size);
  /* Whoever reads `value` reads `with`, but for the nodes from which `with` itself is made. Of one type. */
  int32_t (*replace)(tenon_graph *graph, tenon_value value, tenon_value with);
  int32_t (*set_operand)(tenon_graph *graph, tenon_node node, size_t index, tenon_value value);
  /* Changes the attributes that are named. The types of the results must stay. */
  int32_t (*set_attributes)(tenon_graph *graph, tenon_node node, const char *attributes);
  /* The value becomes an output of the model too, after the others. */
  int32_t (*add_output)(tenon_graph *graph, tenon_value value, const char *name);
  /* Removes a node whose results nobody reads. */
  int32_t (*erase)(tenon_graph *graph, tenon_node node);
} tenon_graph_api;

typedef struct tenon_pass {
  size_t struct_size;
  const char *name; /* [a-z0-9-]+, for messages and records */
  /* "normalize": the model's own operations, before Tenon's passes. "optimize": after them, when norms,
   * activations and attention are single operations. */
  const char *phase;
  /* By how much an output may change, relative to its largest element. 0 stands for what rounding
   * explains; infinity has the change measured and reported only; below 0 nothing is run. */
  double tolerance;
  /* 0 when it is done. May be called again by each compilation, from its thread. */
  int32_t (*run)(tenon_graph *graph, const tenon_graph_api *api, void *user);
  void *user; /* passed to it */
} tenon_pass;

typedef struct tenon_plugin {
  size_t struct_size;
  uint32_t abi; /* TENON_GRAPH_ABI of the header it was built with */
  const char *name;
  const tenon_pass *passes; /* run in this order; they live as long as the process */
  size_t pass_count;
} tenon_plugin;

/* What a plug-in exports under the name tenon_plugin_query: its description, which lives as long as the
 * process; NULL if it cannot serve that version. */
typedef const tenon_plugin *(*tenon_plugin_query_fn)(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif

/* Tenon's C interface to the compiler: compiles models to engines, and checks and explains both.
 *
 * The functions are in libtenon_compiler.so. Its statuses are those of libtenon_runtime.so of the same
 * release; tenon/tenon.h describes errors and struct_size.
 *
 * Lists of strings end with NULL; NULL in place of a list means an empty one. Models are ONNX files
 * and archives from torch.export (.pt2).
 *
 * Threads.  Any number of threads may call at once.
 * Faults.   A fault inside the compiler becomes an error of class TENON_INTERNAL if possible: during
 *           a call, signals such as SIGSEGV are caught. The memory of the process may then be
 *           damaged, so the process should end soon.
 */
#ifndef TENON_COMPILER_H
#define TENON_COMPILER_H

#include <tenon/graph.h>
#include <tenon/tenon.h>

#if defined(TENON_BUILDING_COMPILER)
#define TENON_COMPILER_API __attribute__((visibility("default")))
#else
#define TENON_COMPILER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that a call returns; the caller releases them with tenon_blob_destroy. A text is followed by
 * a zero byte, which is not counted. */
typedef struct tenon_blob {
  char *data;
  size_t bytes;
} tenon_blob;
/* Frees the bytes and empties the struct. NULL is allowed. */
TENON_COMPILER_API void tenon_blob_destroy(tenon_blob *blob);

/* The release, "0.1.0". */
TENON_COMPILER_API const char *tenon_compiler_version(void);

/* Called in the calling thread with the current phase ("import", "codegen") and the fraction of the
 * work that is done, from 0 to 1. A result other than 0 ends the call with TN0407; no file is left. */
typedef int32_t (*tenon_progress)(void *user, const char *phase, double fraction);

/* Zero means the default in every field but the first; NULL in place of the struct means all
 * defaults. */
typedef struct tenon_compile_options {
  size_t struct_size;
  const char *const *targets; /* "cpu", "cpu:avx2", "cuda:sm_90"; "cpu" by default */
  const char *precision;      /* "keep", "fp16", "bf16" or "fp8" */
  const char *const *allow;   /* "tf32", "tanh-gelu", "int8-activations" */
  const char *const *shapes;  /* dims of inputs: "x:1x128", "x:[1..8]x[1..512]", "x:?x3" */
  const char *const *states;  /* "input=output": one buffer of the session */
  const char *const *taps;    /* inner values to add as outputs; "all" for all of them */
  uint32_t threads;           /* to compile with; all usable CPUs by default */
  int32_t no_cache;           /* not 0: the compile cache is neither read nor written */
  int32_t verify;             /* not 0: the numbers are checked after every pass */
  int32_t cubin;              /* not 0: also machine code for GPUs, by ptxas */
  const char *ptxas;          /* path of ptxas; by default the first one found */
  tenon_progress progress;    /* may be NULL */
  void *user;                 /* passed to it */
  const char *const *plugins; /* paths of shared objects that provide passes */
  const tenon_pass *passes;   /* the caller's own passes, which run before those */
  size_t pass_count;
  const char *const *kernels; /* "NODE=FAMILY" or "NODE=FAMILY{tile=64x48,stages=6}": which kernel
                                 computes the node */
  const char *const *disabled_families; /* kernel families to exclude */
  const char *const *optimize_for;      /* sizes at which the engine is as fast as with fixed sizes:
                                           "8" for the only free one, or "x:8x128" */
  double
      max_weights; /* limit of a device's weights, as a multiple of the model's; 0 for no limit */
  int32_t strict; /* not 0: TN0305 if a node accepts fewer sizes than the model or shapes declare */
  const char *const
      *kernel_libraries;     /* paths of the caller's own kernels (docs/guides/kernels.md) */
  int32_t unchecked_kernels; /* not 0: also kernels without a reference, or for other machines */
} tenon_compile_options;

/* Compiles the model file to the engine file `output`, which is replaced at the end. `report` receives
 * JSON (schema tenon.compile/1) with times, sizes and numbers of kernels; it may be NULL. */
TENON_COMPILER_API tenon_status *tenon_compile(const char *model, const char *output,
                                               const tenon_compile_options *options,
                                               tenon_blob *report);
/* The same, to an engine in memory for tenon_engine_open_memory. */
TENON_COMPILER_API tenon_status *tenon_compile_memory(const char *model,
                                                      const tenon_compile_options *options,
                                                      tenon_blob *engine, tenon_blob *report);

/* As tenon_compile_options. */
typedef struct tenon_check_options {
  size_t struct_size;
  const char *const *targets;
  const char *const *shapes;
} tenon_check_options;

/* `json` (tenon.check/1): for a model, every unsupported node with its reason and a workaround; if the
 * list is empty, the model compiles. For an engine, the variants that this machine runs; a damaged
 * engine is an error. */
TENON_COMPILER_API tenon_status *tenon_check(const char *path, const tenon_check_options *options,
                                             tenon_blob *json);

/* As tenon_compile_options. */
typedef struct tenon_inspect_options {
  size_t struct_size;
  const char *format; /* "json" (by default), "text", "dot", "svg", "html" or "onnx" */
  const char *const *shapes;
  const char
      *output; /* file to write instead of `text`, which is then empty; required for "onnx" */
  const char
      *profile; /* for an engine, a file with times of its instructions, as for tenon inspect */
} tenon_inspect_options;

/* The graph of a model or an engine. */
TENON_COMPILER_API tenon_status *
tenon_inspect(const char *path, const tenon_inspect_options *options, tenon_blob *text);

/* Explains the decisions behind an engine: `topic` is "fusion", "memory", "placement", "precision" or
 * "passes". `node` limits it to one node or region of the model; NULL means all. The result is JSON if
 * `as_json` is not 0, otherwise text. */
TENON_COMPILER_API tenon_status *tenon_explain(const char *engine, const char *topic,
                                               const char *node, int32_t as_json, tenon_blob *text);

/* Runs a verb of the command line and returns what it would print with --json. `arguments` are the
 * words after `tenon`. Output to stderr is lost. `progress` may be NULL. */
TENON_COMPILER_API tenon_status *tenon_verb(const char *const *arguments, tenon_progress progress,
                                            void *user, tenon_blob *json);

/* Runs the command line with the streams of the process; returns its exit code. */
TENON_COMPILER_API int tenon_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif

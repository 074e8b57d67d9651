/* Tenon's C interface to the compiler: models become engines, and both are checked and explained.
 *
 * In libtenon_compiler.so, whose statuses are those of libtenon_runtime.so of the same release:
 * tenon/tenon.h says how errors are given, and what struct_size is.
 *
 * Lists of strings end with NULL; NULL in place of a list is an empty one. Models are ONNX files
 * and archives of torch.export (.pt2).
 *
 * Threads.  Any number of threads may call at once.
 * Faults.   A fault inside of the compiler becomes an error of class TENON_INTERNAL where that is
 *           possible: while a call lasts, signals such as SIGSEGV are caught. The memory of the
 *           process may be damaged then; it should end soon.
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

/* Bytes that a call gives to its caller, who releases them with tenon_blob_destroy. A text has a
 * zero behind its last byte, which is not counted. */
typedef struct tenon_blob {
  char *data;
  size_t bytes;
} tenon_blob;
/* Frees the bytes and empties the struct. NULL is allowed. */
TENON_COMPILER_API void tenon_blob_destroy(tenon_blob *blob);

/* The release, "0.1.0". */
TENON_COMPILER_API const char *tenon_compiler_version(void);

/* Told in the calling thread what is being done ("import", "codegen") and how much of the whole is
 * done, from 0 to 1. Anything but 0 ends the call with TN0407 and leaves no file behind. */
typedef int32_t (*tenon_progress)(void *user, const char *phase, double fraction);

/* Zero means the default in every field but the first; NULL in place of the struct means all
 * defaults. */
typedef struct tenon_compile_options {
  size_t struct_size;
  const char *const *targets; /* "cpu", "cpu:avx2", "cuda:sm_90"; "cpu" by default */
  const char *precision;      /* "keep", "fp16", "bf16" or "fp8" */
  const char *const *allow;   /* "tf32", "tanh-gelu" */
  const char *const *shapes;  /* dims of inputs: "x:1x128", "x:[1..8]x[1..512]", "x:?x3" */
  const char *const *states;  /* "input=output": one buffer of the session */
  const char *const *taps;    /* inner values that become outputs too; "all" for every one */
  uint32_t threads;           /* that compile; all usable CPUs by default */
  int32_t no_cache;           /* not 0: the compile cache is neither read nor written */
  int32_t verify;             /* not 0: the numbers are checked after every pass */
  int32_t cubin;              /* not 0: machine code for GPUs too, by ptxas */
  const char *ptxas;          /* path of ptxas; the first that is found by default */
  tenon_progress progress;    /* may be NULL */
  void *user;                 /* passed to it */
  const char *const *plugins; /* paths of shared objects that provide passes */
  const tenon_pass *passes;   /* the caller's own, which run before those */
  size_t pass_count;
  const char *const *kernels; /* "NODE=FAMILY" or "NODE=FAMILY{tile=64x48,stages=6}": which kernel
                                 computes the node */
  const char *const *disabled_families; /* kernel families that are not used */
  const char *const *optimize_for;      /* sizes at which the engine is as fast as one that takes no
                                           others: "8" for the only free one, or "x:8x128" */
  double
      max_weights; /* weights of a device take at most so many times the model's; 0 for no bound */
  int32_t
      strict; /* not 0: TN0305 where a node takes fewer sizes than the model or shapes declare */
} tenon_compile_options;

/* Compiles the model file to the engine file `output`, which is replaced when all is done. `report`
 * gets JSON (schema tenon.compile/1): times, sizes, numbers of kernels; it may be NULL. */
TENON_COMPILER_API tenon_status *tenon_compile(const char *model, const char *output,
                                               const tenon_compile_options *options,
                                               tenon_blob *report);
/* The same to an engine in memory, for tenon_engine_open_memory. */
TENON_COMPILER_API tenon_status *tenon_compile_memory(const char *model,
                                                      const tenon_compile_options *options,
                                                      tenon_blob *engine, tenon_blob *report);

/* As tenon_compile_options. */
typedef struct tenon_check_options {
  size_t struct_size;
  const char *const *targets;
  const char *const *shapes;
} tenon_check_options;

/* `json` (tenon.check/1): of a model every gap, with node, reason and a way round it; none mean
 * that it compiles. Of an engine which of its variants this machine runs; a damaged one is an
 * error. */
TENON_COMPILER_API tenon_status *tenon_check(const char *path, const tenon_check_options *options,
                                             tenon_blob *json);

/* As tenon_compile_options. */
typedef struct tenon_inspect_options {
  size_t struct_size;
  const char *format; /* "json" (by default), "text", "dot", "svg", "html" or "onnx" */
  const char *const *shapes;
  const char *
      output; /* the file that takes it, and `text` is empty; "onnx", which is no text, needs one */
  const char
      *profile; /* of an engine, a file with times of its instructions, as tenon inspect takes it */
} tenon_inspect_options;

/* What a model asks for, or what an engine holds: its graph. */
TENON_COMPILER_API tenon_status *
tenon_inspect(const char *path, const tenon_inspect_options *options, tenon_blob *text);

/* Why an engine is as it is: `topic` is "fusion", "memory", "placement", "precision" or "passes";
 * `node` limits it to one node or region of the model, NULL gives all. JSON if `as_json` is not 0,
 * else text. */
TENON_COMPILER_API tenon_status *tenon_explain(const char *engine, const char *topic,
                                               const char *node, int32_t as_json, tenon_blob *text);

/* Performs any verb of the command line, `arguments` being what follows `tenon`, and gives what it
 * would print with --json. What it would print to stderr is lost. `progress` may be NULL. */
TENON_COMPILER_API tenon_status *tenon_verb(const char *const *arguments, tenon_progress progress,
                                            void *user, tenon_blob *json);

/* The command line with the streams of the process; gives its exit code. */
TENON_COMPILER_API int tenon_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif

/* Tenon's C interface: opens engines written by `tenon compile` and runs them.
 *
 * Shapes are arrays of int64_t, tensors are dense and row-major, sizes are in bytes.
 *
 * Errors.   A function that can fail returns a tenon_status: NULL on success, otherwise an error
 *           that the caller destroys with tenon_status_destroy. On error, outputs are unchanged
 *           unless stated otherwise. No function throws or aborts on bad input.
 * Null.     If a handle or the pointer for a result is null, a function that returns a status fails
 *           with TN0105, a query returns "", 0, -1 or NULL, and destroy and set do nothing.
 * Trust.    An engine contains native code, which has the rights of the process as soon as a
 *           session runs it. Open only engines from people whose programs you would run. Before
 *           this library uses a part of an engine, it checks the following. Header, plan and code
 *           match their hashes; these find damage, but are not a signature. Every size, offset and
 *           buffer of the plan stays inside its memory. Code for the CPU is an ELF object that
 *           needs no library, relocates nothing, runs nothing when it is loaded and has no memory
 *           that is both writable and executable. PTX is text for its target that calls nothing
 *           outside itself. A damaged file is refused; a hostile one does no harm until it runs.
 * Threads.  Any number of threads may use an engine at once. Only one thread at a time may use a
 *           session (a second one gets TN0614). Different sessions run at the same time, including
 *           sessions of one engine.
 * Pointers that a query returns belong to the queried object and live as long as it does, unless
 * stated otherwise.
 * Structs that begin with struct_size grow at their end. The caller sets it to their sizeof, and the
 *           library neither reads nor writes beyond it. A field that this library does not know,
 *           from a newer release, gives TN0105 unless it is zero.
 *
 * Example (examples/c_api.c):
 *
 *     #include <stdio.h>
 *     #include <tenon/tenon.h>
 *
 *     int main(int argc, char **argv) {
 *       tenon_engine *engine = NULL;
 *       tenon_session *session = NULL;
 *       tenon_status *status = tenon_engine_open(argc > 1 ? argv[1] : "model.tenon", NULL, &engine);
 *       if (!status) {
 *         status = tenon_session_create(engine, NULL, &session);
 *       }
 *       int64_t dims[2] = {4, 8};
 *       float data[4 * 8] = {1, 2, 3}, result[4 * 3];
 *       tenon_input input = {data, dims, 2};
 *       tenon_output output = {result, sizeof(result)};
 *       if (!status) {
 *         status = tenon_session_run(session, &input, 1, &output, 1);
 *       }
 *       if (!status) {
 *         printf("%g %g %g\n", result[0], result[1], result[2]);
 *       } else {
 *         fprintf(stderr, "%s\n", tenon_status_text(status));
 *       }
 *       int code = tenon_status_code(status);
 *       tenon_status_destroy(status);
 *       tenon_session_destroy(session);
 *       tenon_engine_destroy(engine);
 *       return code;
 *     }
 */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <stddef.h>
#include <stdint.h>

#if defined(TENON_BUILDING_RUNTIME)
#define TENON_API __attribute__((visibility("default")))
#else
#define TENON_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_status tenon_status;
typedef struct tenon_engine tenon_engine;
typedef struct tenon_session tenon_session;

/* Classes of errors; the values are the exit codes of the tool. */
typedef enum tenon_code {
  TENON_OK = 0,
  TENON_CHECK_FAILED = 1,
  TENON_USAGE = 2,       /* a wrong argument or tensor; correct it and call again */
  TENON_UNSUPPORTED = 3, /* the engine needs another machine or release */
  TENON_DEVICE = 4,
  TENON_BAD_INPUT = 5, /* a damaged file, or data that the model cannot use */
  TENON_EXHAUSTED = 6, /* memory, threads or disk; may succeed later */
  TENON_INTERNAL = 70  /* an internal error in Tenon */
} tenon_code;

/* Element types. Elements of 4 and 2 bits lie one to a byte, in its low bits. */
typedef enum tenon_dtype {
  TENON_F32 = 1,
  TENON_F64 = 2,
  TENON_F16 = 3,
  TENON_BF16 = 4,
  TENON_I8 = 5,
  TENON_I16 = 6,
  TENON_I32 = 7,
  TENON_I64 = 8,
  TENON_U8 = 9,
  TENON_U16 = 10,
  TENON_U32 = 11,
  TENON_U64 = 12,
  TENON_BOOL = 13,
  TENON_F8E4M3FN = 14,
  TENON_F8E4M3FNUZ = 15,
  TENON_F8E5M2 = 16,
  TENON_F8E5M2FNUZ = 17,
  TENON_I4 = 18,
  TENON_U4 = 19,
  TENON_COMPLEX64 = 20,
  TENON_COMPLEX128 = 21,
  TENON_F8E8M0 = 22,
  TENON_F4E2M1 = 23,
  TENON_I2 = 24,
  TENON_U2 = 25
} tenon_dtype;

/* ---- status ---- */

/* Class of an error; TENON_OK for NULL. */
TENON_API tenon_code tenon_status_code(const tenon_status *status);
/* Stable number, "TN0603"; `tenon help TN0603` explains it. "" for NULL. */
TENON_API const char *tenon_status_id(const tenon_status *status);
/* What to try next; "" for NULL or if there is no hint. It is part of the text. */
TENON_API const char *tenon_status_hint(const tenon_status *status);
/* One line: the number, what failed and where, and what to do next. "ok" for NULL. */
TENON_API const char *tenon_status_text(const tenon_status *status);
/* Frees an error. NULL is allowed. */
TENON_API void tenon_status_destroy(tenon_status *status);

/* ---- engine ---- */

/* Zero means the default in every field but the first; NULL in place of the struct means all
 * defaults. */
typedef struct tenon_engine_options {
  size_t struct_size;
  /* Level of the variant to use ("avx512", "sm_90"); NULL selects the best one that this machine
   * runs, a GPU before a CPU. */
  const char *variant;
  /* Not 0: do not compare the weights with their hashes. Damaged weights then change the results
   * of a run without an error. */
  int32_t no_verify_weights;
  /* Index of the GPU for a GPU variant, as NVIDIA's driver counts. */
  int32_t gpu;
} tenon_engine_options;

/* Opens, checks and loads an engine file. Its weights stay mapped, so the file must not be changed
 * in place while the engine exists. On success the caller owns *engine and destroys it. */
TENON_API tenon_status *tenon_engine_open(const char *path, const tenon_engine_options *options,
                                          tenon_engine **engine);
/* The same for an engine file in memory, which must outlive the engine and stay unchanged. */
TENON_API tenon_status *tenon_engine_open_memory(const void *data, size_t bytes,
                                                 const tenon_engine_options *options,
                                                 tenon_engine **engine);
/* Releases the engine; its sessions keep what they need. NULL is allowed. */
TENON_API void tenon_engine_destroy(tenon_engine *engine);

/* Level of the variant in use; "" for NULL. */
TENON_API const char *tenon_engine_variant(const tenon_engine *engine);
/* Index of the GPU in use; -1 on a CPU and for NULL. */
TENON_API int32_t tenon_engine_gpu(const tenon_engine *engine);
TENON_API size_t tenon_engine_input_count(const tenon_engine *engine);
TENON_API size_t tenon_engine_output_count(const tenon_engine *engine);

/* Describes an input or output of an engine. Each dim has a minimum and a maximum; if they are equal,
 * the dim is fixed. */
typedef struct tenon_port_info {
  size_t struct_size; /* set by the caller */
  const char *name;
  tenon_dtype dtype;
  size_t rank;
  const int64_t *min_dims;
  const int64_t *max_dims;
} tenon_port_info;

/* Fills *info for input or output `index`; an index out of range is an error. */
TENON_API tenon_status *tenon_engine_input(const tenon_engine *engine, size_t index,
                                           tenon_port_info *info);
TENON_API tenon_status *tenon_engine_output(const tenon_engine *engine, size_t index,
                                            tenon_port_info *info);

/* JSON text that the compiler recorded under `name` ("fusion", "memory", ...): *bytes characters at
 * *json, not terminated. A record that the engine lacks is an error. */
TENON_API tenon_status *tenon_engine_record(const tenon_engine *engine, const char *name,
                                            const char **json, size_t *bytes);

/* ---- session ---- */

/* A value for a symbol of the session, which sizes state: `tenon inspect` lists them with their ranges
 * and the values that sessions have by default. */
typedef struct tenon_session_value {
  const char *name;
  int64_t value;
} tenon_session_value;

/* As tenon_engine_options. */
typedef struct tenon_session_options {
  size_t struct_size;
  /* Threads that work on a run, including the calling one; 0 means the number of usable CPUs. */
  uint32_t threads;
  /* Maximum number of bytes that the session may allocate; 0 means 64 GiB. */
  uint64_t memory_limit;
  /* Not 0, on a GPU: library calls use the fastest of several algorithms, measured once for each new
   * shape, instead of the one that the library proposes. */
  int32_t measure_calls;
  /* Values for symbols of the session. Names and array may be released after the call. */
  const tenon_session_value *values;
  size_t value_count;
} tenon_session_options;

/* Creates a session: threads, state (zero) and, if all dims are fixed, the memory of a run. On
 * success the caller owns *session and destroys it. TN0105 for values with unknown names or out of
 * range. */
TENON_API tenon_status *tenon_session_create(const tenon_engine *engine,
                                             const tenon_session_options *options,
                                             tenon_session **session);
/* NULL is allowed. */
TENON_API void tenon_session_destroy(tenon_session *session);

/* An input of a run: `rank` dims at `dims` and their elements at `data`, aligned to the element. */
typedef struct tenon_input {
  const void *data;
  const int64_t *dims;
  size_t rank;
} tenon_input;

/* Room for an output: `bytes` at `data`, aligned to the element; or NULL and 0 to keep it in the
 * session, where tenon_session_output_data finds it. */
typedef struct tenon_output {
  void *data;
  size_t bytes;
} tenon_output;

/* Prepares the session for the dims of these inputs (`data` is ignored). The shapes of the outputs
 * are then known, and the next run with these dims allocates nothing. */
TENON_API tenon_status *tenon_session_prepare(tenon_session *session, const tenon_input *inputs,
                                              size_t input_count);
/* Dims and bytes of output `index` for the dims last prepared or run; *dims is valid until the next
 * of those calls. If data decides the size of an output, they are the maximum after
 * tenon_session_prepare (pass a buffer of that size) and the actual size after a run.
 * `dims`, `rank` and `bytes` may be NULL. */
TENON_API tenon_status *tenon_session_output_shape(const tenon_session *session, size_t index,
                                                   const int64_t **dims, size_t *rank,
                                                   size_t *bytes);

/* Runs the model: all inputs and outputs in the engine's order. Returns when the outputs are
 * complete; after an error their contents are undefined. Outputs overlap neither inputs nor each
 * other. */
TENON_API tenon_status *tenon_session_run(tenon_session *session, const tenon_input *inputs,
                                          size_t input_count, const tenon_output *outputs,
                                          size_t output_count);
/* An output that the last run kept in the session, until the next run; NULL if there is none. */
TENON_API const void *tenon_session_output_data(const tenon_session *session, size_t index);

/* A tensor on the host or on a GPU. The layout is that of DLPack's DLTensor, so a pointer to one may
 * be passed directly. Tensors are dense; `strides` may be NULL. */
typedef struct tenon_tensor {
  void *data;
  int32_t device_type; /* 1: host, 2: NVIDIA GPU, 3: page-locked host memory */
  int32_t device_id;   /* index of the GPU, as NVIDIA's driver counts */
  int32_t rank;
  uint8_t type_code; /* DLPack's: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, ... */
  uint8_t type_bits;
  uint16_t type_lanes; /* 1 */
  int64_t *dims;
  int64_t *strides; /* in elements */
  uint64_t byte_offset;
} tenon_tensor;

/* As tenon_engine_options. */
typedef struct tenon_run_options {
  size_t struct_size;
  /* A CUstream (or cudaStream_t) of the GPU's primary context, as PyTorch and the CUDA runtime use
   * it; (void *)1 is the default stream. The run is enqueued on it, and the call returns without
   * waiting. If an output is on the host or data decides sizes within the run, the call waits, and
   * the stream must not be capturing. NULL: the tensors passed must be complete before the call,
   * which returns when the outputs are complete. If the call does not wait, the next run of the
   * session returns errors in the model's data (TN0608, TN0609, TN0611). */
  void *stream;
} tenon_run_options;

/* The same as tenon_session_run for tensors on the host or on the engine's GPU. Those on the GPU are
 * used in place if they are aligned to 16 bytes. An output that is NULL stays in the session on the
 * host; one whose data is NULL stays in the session on the given device. `options` may be NULL. Keep
 * tensors and session until the stream has reached the end of the run. */
TENON_API tenon_status *
tenon_session_run_tensors(tenon_session *session, const tenon_tensor *const *inputs,
                          size_t input_count, const tenon_tensor *const *outputs,
                          size_t output_count, const tenon_run_options *options);

/* Bytes that a session has allocated. */
typedef struct tenon_memory_use {
  size_t struct_size; /* set by the caller */
  uint64_t arena;
  uint64_t state;
  uint64_t scratch;   /* of all threads */
  uint64_t weights;   /* on the GPU, shared by the sessions of the engine */
  uint64_t workspace; /* for library calls on the GPU */
  uint64_t ports;     /* copies on the GPU of inputs and outputs in host memory */
  uint64_t staging;   /* page-locked host memory */
} tenon_memory_use;
TENON_API tenon_status *tenon_session_memory(const tenon_session *session, tenon_memory_use *use);

/* Counts for a run with the dims last prepared, and information on the last run. */
typedef struct tenon_run_facts {
  size_t struct_size; /* set by the caller */
  uint32_t kernels;
  uint32_t calls;     /* of libraries */
  uint32_t moves;     /* copies and fills */
  int32_t used_graph; /* 1 if the last run was one launch of a CUDA graph */
  double gpu_seconds; /* of the last run by the GPU's clock; 0 if it was not timed */
} tenon_run_facts;
TENON_API tenon_status *tenon_session_facts(const tenon_session *session, tenon_run_facts *facts);
/* On a GPU: whether later runs are timed. */
TENON_API void tenon_session_set_timing(tenon_session *session, int32_t is_on);

/* Sets the model's state to zero. */
TENON_API tenon_status *tenon_session_reset_state(tenon_session *session);

#ifdef __cplusplus
}
#endif
#endif

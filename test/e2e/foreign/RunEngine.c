/* run_engine ENGINE INPUTS OUTPUTS [RUNS]: runs an engine by the runtime alone, on one thread.
 * Shapes are fixed. INPUTS holds the bytes of all inputs in the engine's order, OUTPUTS gets those
 * of the outputs of the last run. Prints the variant and the bytes of the arena. */
#include <tenon/tenon.h>

#include <stdio.h>
#include <stdlib.h>

enum { kMostPorts = 16 };

static void check(tenon_status *status) {
  if (status) {
    printf("%s %s\n", tenon_status_id(status), tenon_status_text(status));
    exit(tenon_status_code(status));
  }
}

static char *readFile(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) {
    printf("cannot read %s\n", path);
    exit(TENON_USAGE);
  }
  long bytes = ftell(file);
  char *data = malloc(bytes + 1);
  rewind(file);
  if (!data || fread(data, 1, bytes, file) != (size_t)bytes) {
    exit(TENON_USAGE);
  }
  fclose(file);
  return data;
}

static size_t bytesOf(tenon_dtype type) {
  switch (type) {
  case TENON_F64:
  case TENON_I64:
    return 8;
  case TENON_F32:
  case TENON_I32:
    return 4;
  case TENON_F16:
  case TENON_BF16:
  case TENON_I16:
    return 2;
  default:
    return 1;
  }
}

int main(int count, char **arguments) {
  if (count < 4) {
    printf("usage: run_engine ENGINE INPUTS OUTPUTS [RUNS]\n");
    return TENON_USAGE;
  }
  tenon_engine_options engineOptions = {.struct_size = sizeof engineOptions};
  tenon_engine *engine;
  check(tenon_engine_open(arguments[1], &engineOptions, &engine));
  tenon_session_options options = {.struct_size = sizeof options, .threads = 1};
  tenon_session *session;
  check(tenon_session_create(engine, &options, &session));
  size_t inputs = tenon_engine_input_count(engine), outputs = tenon_engine_output_count(engine);
  if (inputs > kMostPorts || outputs > kMostPorts) {
    return TENON_USAGE;
  }
  char *data = readFile(arguments[2]), *next = data;
  tenon_input in[kMostPorts];
  for (size_t i = 0; i < inputs; ++i) {
    tenon_port_info port = {.struct_size = sizeof port};
    check(tenon_engine_input(engine, i, &port));
    in[i] = (tenon_input){next, port.min_dims, port.rank};
    size_t bytes = bytesOf(port.dtype);
    for (size_t axis = 0; axis < port.rank; ++axis) {
      bytes *= port.min_dims[axis];
    }
    next += bytes;
  }
  tenon_output out[kMostPorts] = {{0}};
  for (int runs = count > 4 ? atoi(arguments[4]) : 1; runs > 0; --runs) {
    check(tenon_session_run(session, in, inputs, out, outputs));
  }
  FILE *file = fopen(arguments[3], "wb");
  for (size_t i = 0; file && i < outputs; ++i) {
    size_t bytes;
    check(tenon_session_output_shape(session, i, NULL, NULL, &bytes));
    fwrite(tenon_session_output_data(session, i), 1, bytes, file);
  }
  if (!file || fclose(file)) {
    return TENON_USAGE;
  }
  tenon_memory_use use = {.struct_size = sizeof use};
  check(tenon_session_memory(session, &use));
  printf("%s, arena %llu bytes, scratch %llu\n", tenon_engine_variant(engine),
         (unsigned long long)use.arena, (unsigned long long)use.scratch);
  tenon_session_destroy(session);
  tenon_engine_destroy(engine);
  free(data);
  return 0;
}

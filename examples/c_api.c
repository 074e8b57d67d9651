// Runs an engine that takes x[4, 8] and gives y[4, 3], through the C interface.
#include <stdio.h>
#include <tenon/tenon.h>

int main(int argc, char **argv) {
  tenon_engine *engine = NULL;
  tenon_session *session = NULL;
  tenon_status *status = tenon_engine_open(argc > 1 ? argv[1] : "model.tenon", NULL, &engine);
  if (!status) {
    status = tenon_session_create(engine, NULL, &session);
  }
  int64_t dims[2] = {4, 8};
  float data[4 * 8] = {1, 2, 3}, result[4 * 3];
  tenon_input input = {data, dims, 2};
  tenon_output output = {result, sizeof(result)};
  if (!status) {
    status = tenon_session_run(session, &input, 1, &output, 1);
  }
  if (!status) {
    printf("%g %g %g\n", result[0], result[1], result[2]);
  } else {
    fprintf(stderr, "%s\n", tenon_status_text(status));
  }
  int code = tenon_status_code(status);
  tenon_status_destroy(status);
  tenon_session_destroy(session);
  tenon_engine_destroy(engine);
  return code;
}

// Code for GPUs.
#include "engine/code/PtxCheck.h"
#include "test/fuzz/Fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)tenon::engine::checkPtx(tenon::fuzz::bytesOf(data, size), "sm_90").isOk();
  (void)tenon::engine::checkCubin(tenon::fuzz::bytesOf(data, size), "sm_90").isOk();
  return 0;
}

// NumPy's arrays.
#include "runtime/tensors/Npy.h"
#include "test/fuzz/Fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)tenon::parseNpy(tenon::fuzz::bytesOf(data, size), "fuzz.npy").isOk();
  return 0;
}

// NumPy's archives; of what they hold at most 64 KiB an array is wanted.
#include "runtime/tensors/Npy.h"
#include "test/fuzz/Fuzz.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryFile file(data, size);
  (void)readNpz(file.path(), [](const std::string &, const NpyHeader &header) {
    return header.dataBytes <= (64 << 10) ? Status::ok()
                                          : Status::error(ErrorId::RunInputDim, "too large");
  }).isOk();
  return 0;
}

// Files of safetensors: the header, and tensors whose bytes are all read.
#include "compiler/frontend/weights/safetensors/Safetensors.h"
#include "test/fuzz/Fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tenon::Result<tenon::safetensors::File> file =
      tenon::safetensors::read(tenon::fuzz::bytesOf(data, size));
  uint64_t sum = 0;
  if (file) {
    for (const auto &[name, tensor] : file->tensors) {
      sum += static_cast<uint64_t>(tensor.elements());
      for (std::byte byte : tensor.bytes) {
        sum += static_cast<uint64_t>(byte);
      }
    }
  }
  return sum == 1 ? 1 : 0;
}

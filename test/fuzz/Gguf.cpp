// GGUF files: keys, and tensors whose bytes are all read.
#include "compiler/frontend/weights/gguf/Gguf.h"
#include "test/fuzz/Fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tenon::Result<tenon::gguf::File> file = tenon::gguf::read(tenon::fuzz::bytesOf(data, size));
  uint64_t sum = 0;
  if (file) {
    for (const auto &[name, value] : file->keys) {
      sum += value.describe().size();
    }
    for (const auto &[name, tensor] : file->tensors) {
      for (std::byte byte : tensor.bytes) {
        sum += static_cast<uint64_t>(byte);
      }
    }
  }
  return sum == 1 ? 1 : 0;
}

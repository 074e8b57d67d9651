// What a worker, which may run foreign code, writes into the memory that it shares with the front
// and into their socket.
#include "server/ipc/Control.h"
#include "server/ipc/ModelInfo.h"
#include "server/ipc/RequestSlot.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>
#include <cstring>
#include <memory>

using namespace tenon;
using namespace tenon::server;

namespace {

void readTables(Bytes buffer, size_t count) {
  Result<std::vector<TensorPlace>> tensors = readTable(buffer, 0, count);
  if (!tensors) {
    return;
  }
  for (const TensorPlace &tensor : *tensors) {
    if (tensor.offset > buffer.size() || tensor.bytes > buffer.size() - tensor.offset) {
      std::abort(); // the front reads there
    }
  }
}

void readSlot(Bytes bytes) {
  auto slot = std::make_unique<RequestSlot>();
  size_t most = offsetof(RequestSlot, requests);
  std::memcpy(static_cast<void *>(slot.get()), bytes.data(), std::min(bytes.size(), most));
  (void)readAnswer(*slot).failure.isOk();
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  // A copy of its own, so that a read behind its end is found.
  size_t bytes = (size - 1) / sizeof(uint64_t) * sizeof(uint64_t);
  std::unique_ptr<uint64_t[]> words = std::make_unique<uint64_t[]>(bytes / sizeof(uint64_t));
  std::memcpy(words.get(), data + 1, bytes);
  readTables({reinterpret_cast<const std::byte *>(words.get()), bytes}, data[0] % 9);
  readSlot(fuzz::bytesOf(data + 1, size - 1));
  std::string_view text = fuzz::textOf(data + 1, size - 1);
  (void)decodeError(data[0], text).isOk();
  (void)decodeLoad(text).isOk();
  if (Result<ModelInfo> info = decodeModelInfo(text)) {
    if (!decodeModelInfo(encodeModelInfo(*info))) {
      std::abort(); // what is read can be written
    }
  }
  return 0;
}

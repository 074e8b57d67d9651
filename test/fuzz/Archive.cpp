// Archives of torch.export: zip, the description in it, and the storages of its weights.
#include "compiler/frontend/pt2/wire/ArchiveReader.h"
#include "test/fuzz/Fuzz.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)pt2::readArchive(fuzz::bytesOf(data, size)).isOk();
  return 0;
}

// The description of a program in JSON.
#include "compiler/frontend/pt2/wire/ArchiveReader.h"
#include "test/fuzz/Fuzz.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)pt2::readProgram(std::string_view(reinterpret_cast<const char *>(data), size)).isOk();
  return 0;
}

// Code objects for the CPU.
#include "engine/code/ElfCheck.h"
#include "test/fuzz/Fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string kernels[] = {"test_nothing"};
  (void)tenon::engine::checkCodeObject(tenon::fuzz::bytesOf(data, size),
                                       tenon::engine::Architecture::X86_64, kernels)
      .isOk();
  return 0;
}

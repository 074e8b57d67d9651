// Pictures.
#include "runtime/tensors/Image.h"
#include "test/fuzz/Fuzz.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryFile file(data, size);
  Preprocessing preprocessing{{0.5}, {0.5}, ImageLayout::Nhwc, true};
  (void)loadImage(file.path(), preprocessing, DType::F32, {1, 4, 4, 3}).isOk();
  (void)parsePreprocessing(std::string(fuzz::textOf(data, size)));
  return 0;
}

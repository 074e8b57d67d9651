// Pictures.
#include "test/fuzz/Fuzz.h"
#include "tools/tenon/Image.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryFile file(data, size);
  tool::Preprocessing preprocessing{{0.5}, {0.5}, tool::ImageLayout::Nhwc, true};
  (void)tool::loadImage(file.path(), preprocessing, DType::F32, {1, 4, 4, 3}).isOk();
  (void)tool::parsePreprocessing(std::string(fuzz::textOf(data, size)));
  return 0;
}

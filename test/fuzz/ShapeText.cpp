// Shapes and ranges of the command line.
#include "runtime/tensors/ShapeText.h"
#include "test/fuzz/Fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(tenon::fuzz::textOf(data, size));
  (void)tenon::parseShapeArgument(text).isOk();
  (void)tenon::parseFillArgument(text).isOk();
  return 0;
}

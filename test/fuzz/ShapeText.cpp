// Shapes and ranges of the command line.
#include "test/fuzz/Fuzz.h"
#include "tools/tenon/ShapeText.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(tenon::fuzz::textOf(data, size));
  (void)tenon::tool::parseShapeArgument(text).isOk();
  (void)tenon::tool::parseFillArgument(text).isOk();
  return 0;
}

// A model's config.pbtxt.
#include "server/protocol/ModelConfig.h"
#include "server/protocol/TextProto.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>

using namespace tenon;
using namespace tenon::server;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text = fuzz::textOf(data, size);
  (void)parseTextProto(text, "config.pbtxt").isOk();
  bool isStrict = parseModelConfig(text, "config.pbtxt", false).isOk();
  bool isLenient = parseModelConfig(text, "config.pbtxt", true).isOk();
  if (isStrict && !isLenient) {
    std::abort(); // to be lenient is to take more
  }
  return 0;
}

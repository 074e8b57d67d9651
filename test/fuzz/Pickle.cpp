// Pickles, looked at before a file goes into the registry.
#include "registry/Pickle.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace tenon;
  Bytes bytes = fuzz::bytesOf(data, size);
  bool isPickle = registry::importsOfPickle(bytes).has_value();
  if (isPickle && !registry::beginsPickle(bytes)) {
    std::abort(); // the two agree on what a pickle is
  }
  (void)registry::isUnsafePickle(bytes);
  return 0;
}

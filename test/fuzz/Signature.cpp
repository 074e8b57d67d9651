// Bundles of signatures, and the statements in them: both come with a model from wherever it comes.
#include "registry/signing/Manifest.h"
#include "registry/signing/Trust.h"
#include "test/fuzz/Fuzz.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)signing::describeBundle(fuzz::textOf(data, size)).isOk();
  Result<signing::Manifest> manifest = signing::parseStatement(fuzz::textOf(data, size));
  for (const signing::Resource &resource :
       manifest.isOk() ? manifest->resources : std::vector<signing::Resource>()) {
    bool staysInside = resource.name == signing::kOnlyFile || manifest->partBytes ||
                       signing::staysInside(resource.name);
    if (!staysInside) {
      __builtin_trap();
    }
  }
  return 0;
}

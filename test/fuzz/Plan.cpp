// Plans as they are stored: decoded, then checked against a few weights.
#include "engine/codec/PlanCodec.h"
#include "engine/validate/Validate.h"
#include "test/fuzz/Fuzz.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<engine::Plan> plan = engine::decodePlan(fuzz::bytesOf(data, size));
  if (plan) {
    std::vector<engine::Weight> weights(2);
    weights[0].bytes = weights[1].bytes = 96;
    (void)engine::validatePlan(*plan, weights, 8).isOk();
    (void)engine::validatePlan(*plan, weights, 8, engine::kGpu).isOk();
  }
  return 0;
}

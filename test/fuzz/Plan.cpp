// Plans as they are stored: decoded, checked against a few weights, and what is accepted is bound
// as a session does, with every symbol at its minimum.
#include "engine/codec/PlanCodec.h"
#include "engine/validate/Validate.h"
#include "runtime/plan/BoundPlan.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>
#include <vector>

using namespace tenon;

namespace {

void bind(const engine::Plan &plan) {
  std::vector<int64_t> symbols;
  std::vector<runtime::SymbolValue> given;
  for (const engine::Symbol &symbol : plan.symbols) {
    symbols.push_back(symbol.min);
    if (symbol.isOfSession) {
      given.push_back({symbol.name, symbol.min});
    }
  }
  runtime::FlatDims dims;
  for (const engine::Port &port : plan.inputs) {
    for (engine::ExprId dim : port.dims) {
      dims.push_back(engine::evaluate(plan.exprs.program(dim), symbols).value_or(1));
    }
  }
  Result<std::vector<int64_t>> session = runtime::sessionValues(plan, given);
  if (!session) {
    std::abort(); // the minimum is in the range
  }
  OffsetPlanner planner;
  (void)runtime::layOutState(plan, *session, 64).isOk();
  (void)runtime::BoundPlan::bind(plan, *session, dims, 64, planner).isOk();
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<engine::Plan> plan = engine::decodePlan(fuzz::bytesOf(data, size));
  if (plan) {
    std::vector<engine::Weight> weights(2);
    weights[0].bytes = weights[1].bytes = 96;
    for (uint16_t device : {engine::kHost, engine::kGpu}) {
      if (engine::validatePlan(*plan, weights, 8, device)) {
        bind(*plan);
      }
    }
  }
  return 0;
}

// Relies on the words of engine/Constraints.h.

#include "tools/tenon/print/SizeNeeds.h"

#include "engine/Constraints.h"
#include "support/text/ExportGuard.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

namespace tenon::tool {

using view::visible;

std::vector<SizeNeed> needsOf(const engine::Plan &plan) {
  std::vector<SizeNeed> needs;
  for (const engine::Constraint &constraint : plan.constraints) {
    SizeNeed need;
    need.needs = engine::describe(plan, constraint);
    std::optional<ExportGuard> guard = exportGuardOf(constraint.node);
    need.isGuard = guard.has_value();
    need.node = guard ? "" : constraint.node;
    need.unchecked = guard ? std::string(guard->unchecked) : "";
    if (!guard || needs.empty() || needs.back().needs != need.needs) {
      needs.push_back(std::move(need));
    }
  }
  return needs;
}

std::string needText(const SizeNeed &need) {
  if (!need.isGuard) {
    return fmt::format("needs   {}  by node '{}'", visible(need.needs), visible(need.node));
  }
  return need.unchecked.empty()
             ? fmt::format("needs   {}  by a guard of the export", visible(need.needs))
             : fmt::format("unchecked  guard {}: {}", visible(need.needs), visible(need.unchecked));
}

Json needsJson(const std::vector<SizeNeed> &needs) {
  Json list = Json::array();
  for (const SizeNeed &need : needs) {
    Json entry = {{"needs", need.needs}, {"node", need.node}};
    if (need.isGuard) {
      entry["guard"] = true;
      entry["unchecked"] = need.unchecked;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

} // namespace tenon::tool

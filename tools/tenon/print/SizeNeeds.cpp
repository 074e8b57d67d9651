// Relies on the words of engine/Constraints.h.

#include "tools/tenon/print/SizeNeeds.h"

#include "engine/Constraints.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

namespace tenon::tool {

using view::visible;

std::vector<SizeNeed> needsOf(const engine::Plan &plan) {
  std::vector<SizeNeed> needs;
  for (const engine::Constraint &constraint : plan.constraints) {
    addNeed(needs, constraint.node, engine::describe(plan, constraint));
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

#include "tools/tenon/gate/CompareInterfaces.h"

#include "engine/PortRanges.h"
#include "engine/Reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenon::tool {
namespace {

using engine::Plan;
using engine::Port;
using engine::PortRanges;

const Port *portOf(const std::vector<Port> &ports, const std::string &name) {
  std::vector<Port>::const_iterator found = std::ranges::find(ports, name, &Port::name);
  return found == ports.end() ? nullptr : &*found;
}

std::string shapeOf(const Plan &plan, const Port &port) {
  PortRanges ranges = engine::rangesOf(plan, port);
  std::vector<std::string> dims;
  for (size_t i = 0; i < ranges.least.size(); ++i) {
    dims.push_back(ranges.least[i] == ranges.most[i]
                       ? std::to_string(ranges.least[i])
                       : fmt::format("[{}..{}]", ranges.least[i], ranges.most[i]));
  }
  return fmt::format("{} of {}", nameOf(port.dtype), fmt::join(dims, "x"));
}

/// Whether all dims of `inner` are dims of `outer` too.
bool holds(const PortRanges &outer, const PortRanges &inner) {
  bool isHeld = outer.least.size() == inner.least.size();
  for (size_t i = 0; isHeld && i < inner.least.size(); ++i) {
    isHeld = outer.least[i] <= inner.least[i] && outer.most[i] >= inner.most[i];
  }
  return isHeld;
}

void compareInputs(const Plan &before, const Plan &after, std::vector<std::string> &found) {
  for (const Port &port : before.inputs) {
    const Port *now = portOf(after.inputs, port.name);
    if (!now) {
      found.push_back(fmt::format("the input '{}' is gone", port.name));
    } else if (now->dtype != port.dtype ||
               !holds(engine::rangesOf(after, *now), engine::rangesOf(before, port))) {
      found.push_back(fmt::format("the input '{}' is {}, but was {}", port.name,
                                  shapeOf(after, *now), shapeOf(before, port)));
    }
  }
  for (const Port &port : after.inputs) {
    if (!portOf(before.inputs, port.name)) {
      found.push_back(
          fmt::format("there is a new input '{}', which clients do not send yet", port.name));
    }
  }
}

void compareOutputs(const Plan &before, const Plan &after, std::vector<std::string> &found) {
  for (const Port &port : before.outputs) {
    const Port *now = portOf(after.outputs, port.name);
    if (!now) {
      found.push_back(fmt::format("the output '{}' is gone", port.name));
    } else if (now->dtype != port.dtype || now->dims.size() != port.dims.size()) {
      found.push_back(fmt::format("the output '{}' is {}, but was {}", port.name,
                                  shapeOf(after, *now), shapeOf(before, port)));
    }
  }
}

} // namespace

Result<std::vector<std::string>> compareInterfaces(const std::string &before,
                                                   const std::string &after) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> old, engine::EngineFile::open(before));
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> now, engine::EngineFile::open(after));
  std::vector<std::string> found;
  // Of each level: a server takes the one that its machine runs.
  for (const engine::Variant &variant : now->variants()) {
    std::vector<std::string> here;
    compareInputs(old->variants().front().plan, variant.plan, here);
    compareOutputs(old->variants().front().plan, variant.plan, here);
    for (std::string &each : here) {
      if (std::ranges::find(found, each) == found.end()) {
        found.push_back(std::move(each));
      }
    }
  }
  return found;
}

} // namespace tenon::tool

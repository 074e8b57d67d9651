// Implements the choices; variants of one level that know sizes come behind the general one.

#include "tools/tenon/print/FigureSizes.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/tensors/Seeded.h"

#include <fmt/format.h>

#include <bit>

namespace tenon::tool {

std::string variantOfThisMachine(const engine::EngineFile &file) {
  std::string best;
  int most = 0;
  for (const engine::Variant &variant : file.variants()) {
    bool runsHere = variant.architecture == runtime::kHostArchitecture &&
                    (variant.features & ~runtime::hostFeatures()) == 0;
    if (runsHere && std::popcount(variant.features) > most) {
      most = std::popcount(variant.features);
      best = variant.level;
    }
  }
  return best;
}

Result<view::InputDims> figureDims(const engine::EngineFile &file,
                                   const std::vector<std::string> &shapes) {
  view::InputDims dims;
  if (file.variants().empty()) {
    return dims;
  }
  const engine::Plan &plan = file.variants().front().plan;
  TENON_ASSIGN(std::vector<ShapeArgument> asked, parseShapeArguments(shapes));
  Result<std::vector<std::vector<int64_t>>> chosen = chooseDims(plan, asked, /*batch=*/0);
  if (!chosen) {
    return shapes.empty() ? Result<view::InputDims>(dims)
                          : Result<view::InputDims>(chosen.takeStatus());
  }
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    dims[plan.inputs[i].name] = (*chosen)[i];
  }
  return dims;
}

bool hasOwnPlan(const engine::EngineFile &file, const std::string &level,
                const view::InputDims &dims) {
  // The general plan of a level is its first.
  bool isGeneral = true;
  for (const engine::Variant &variant : file.variants()) {
    if (variant.level != level) {
      continue;
    }
    bool isFor = !isGeneral;
    isGeneral = false;
    for (const engine::Port &port : variant.plan.inputs) {
      view::InputDims::const_iterator given = dims.find(port.name);
      for (size_t i = 0; isFor && i < port.dims.size(); ++i) {
        std::optional<int64_t> known = variant.plan.exprs.constantValue(port.dims[i]);
        isFor = given != dims.end() && i < given->second.size() &&
                (!known || *known == given->second[i]);
      }
    }
    if (isFor) {
      return true;
    }
  }
  return false;
}

ProfileOrigin originOf(std::string_view profile) {
  ProfileOrigin origin;
  // What does not read is addTimes' to report.
  Json json = parseJson(profile);
  if (!json.is_object()) {
    return origin;
  }
  if (json.contains("isa") && json["isa"].is_string()) {
    origin.level = json["isa"];
  }
  if (json.contains("inputs") && json["inputs"].is_object()) {
    for (const auto &[name, dims] : json["inputs"].items()) {
      if (dims.is_string() && !dims.get_ref<const std::string &>().empty()) {
        origin.shapes.push_back(fmt::format("{}:{}", name, dims.get<std::string>()));
      }
    }
  }
  return origin;
}

} // namespace tenon::tool

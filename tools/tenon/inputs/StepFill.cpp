// Implements the way from an engine's record to the elements of its inputs.
#include "tools/tenon/inputs/StepFill.h"

#include "support/LanguageStep.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon::tool {

void fillStep(std::span<Tensor> inputs, const runtime::Engine &engine, int64_t pages,
              const std::set<std::string> &given) {
  Result<std::string_view> text = engine.file().record("language");
  Json record = text ? parseJson(*text) : Json();
  Json ports = record.is_object() ? record.value("ports", Json::object()) : Json::object();
  auto ofRole = [&](const std::string &role) -> Tensor * {
    auto found = std::ranges::find(inputs, ports.value(role, ""), &Tensor::name);
    return found == inputs.end() ? nullptr : &*found;
  };
  auto size = [&](const char *role, size_t dim) {
    const Tensor *tensor = ofRole(role);
    return tensor && dim < tensor->dims.size() ? tensor->dims[dim] : 0;
  };
  StepSizes sizes = {.tokens = size("tokens", 0),
                     .rows = size("rows", 0),
                     .context = size("context", 0),
                     .sequences = size("pages", 0),
                     .table = size("pages", 1),
                     .page = record.is_object() ? record.value("page", int64_t{0}) : 0,
                     .pages = pages,
                     .longest = record.is_object() ? record.value("positions", int64_t{0}) : 0};
  for (const auto &[role, name] : ports.items()) {
    Tensor *tensor = ofRole(role);
    std::optional<std::vector<int64_t>> numbers = stepInput(role, sizes);
    bool isSet = tensor && numbers && !given.contains(tensor->name) &&
                 numbers->size() == static_cast<size_t>(tensor->elements());
    for (size_t i = 0; isSet && i < numbers->size(); ++i) {
      setElement(*tensor, static_cast<int64_t>(i), static_cast<double>((*numbers)[i]));
    }
  }
}

} // namespace tenon::tool

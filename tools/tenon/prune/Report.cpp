// Relies on names being the model's: for people their control characters are made visible.

#include "tools/tenon/prune/Report.h"

#include "tools/tenon/print/Format.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::tool {

Json pruneJson(const PruneOutcome &outcome) {
  Json groups = Json::array(), fixed = Json::array();
  for (const prune::GroupInfo &own : outcome.info.groups) {
    groups.push_back({{"nodes", own.nodes},
                      {"width", own.width},
                      {"kept", own.kept},
                      {"unit", own.unit},
                      {"step", own.step},
                      {"reason", own.reason},
                      {"by_magnitude", own.isFallback}});
  }
  for (const prune::FixedInfo &own : outcome.info.fixed) {
    fixed.push_back(
        {{"node", own.node}, {"op", own.op}, {"width", own.width}, {"reason", own.reason}});
  }
  Json json = {{"model", outcome.model},
               {"output", outcome.output},
               {"importance", outcome.importance},
               {"ratio", outcome.ratio},
               {"parameters_before", outcome.info.parametersBefore},
               {"parameters_after", outcome.info.parametersAfter},
               {"bytes_before", outcome.bytesBefore},
               {"bytes_after", outcome.bytesAfter},
               {"timing", nullptr},
               {"groups", groups},
               {"fixed", fixed}};
  if (outcome.timing) {
    json["timing"] = {{"before_ms", outcome.timing->before},
                      {"after_ms", outcome.timing->after},
                      {"predicted_ms", outcome.timing->predicted},
                      {"ratio", outcome.timing->ratio.ofMedians},
                      {"interval_95", {outcome.timing->ratio.low, outcome.timing->ratio.high}}};
  }
  return json;
}

Json recipeOf(const PruneOutcome &outcome) {
  Json parameters = Json::object();
  for (const prune::ShrunkTensor &tensor : outcome.info.tensors) {
    if (tensor.readers.empty()) {
      continue;
    }
    Json kept = Json::object();
    for (const auto &[axis, indices] : tensor.kept) {
      kept[std::to_string(axis)] = indices;
    }
    // Parts of one tensor for different readers get names of their own.
    std::string key = parameters.contains(tensor.name) ? tensor.newName : tensor.name;
    parameters[key] = {{"tensor", tensor.name},
                       {"dims", tensor.dims},
                       {"kept", kept},
                       {"crc32", tensor.crc},
                       {"readers", tensor.readers}};
    if (!tensor.sources.empty()) {
      parameters[key]["computed_of"] = tensor.sources;
    }
    if (tensor.groups > 0) {
      parameters[key]["groups"] = tensor.groups;
    }
    if (tensor.losesHeads) {
      parameters[key]["heads"] = true;
    }
    if (tensor.isNode) {
      parameters[key]["constant"] = true;
    }
  }
  Json sizes = Json::array();
  for (const prune::ChangedSizes &own : outcome.info.sizes) {
    sizes.push_back(
        {{"node", own.node}, {"op", own.op}, {"before", own.before}, {"after", own.after}});
  }
  return {{"schema", "tenon.recipe/1"},
          {"model", outcome.model},
          {"ratio", outcome.ratio},
          {"parameters", parameters},
          {"sizes", sizes}};
}

std::string pruneText(const PruneOutcome &outcome) {
  uint64_t width = 0, kept = 0;
  size_t longest = 0;
  auto title = [](const prune::GroupInfo &own) {
    std::string more =
        own.nodes.size() > 1 ? fmt::format(" and {} more", own.nodes.size() - 1) : "";
    return view::visible(own.nodes[0]) + more;
  };
  for (const prune::GroupInfo &own : outcome.info.groups) {
    width += own.width;
    kept += own.kept;
    longest = std::max(longest, title(own).size());
  }
  std::string text = fmt::format("{}: {} of {} channels and heads kept in {} groups of layers; {} "
                                 "of {} parameters, {} after {}\n",
                                 outcome.output, kept, width, outcome.info.groups.size(),
                                 outcome.info.parametersAfter, outcome.info.parametersBefore,
                                 formatBytes(outcome.bytesAfter), formatBytes(outcome.bytesBefore));
  if (outcome.timing) {
    text += fmt::format("time: {:.3f} ms measured, {:.3f} ms predicted; {:.3f} ms before, {:.3f} x "
                        "of it (95 % between "
                        "{:.3f} and {:.3f})\n",
                        outcome.timing->after, outcome.timing->predicted, outcome.timing->before,
                        outcome.timing->ratio.ofMedians, outcome.timing->ratio.low,
                        outcome.timing->ratio.high);
  }
  longest = std::min<size_t>(longest, 60);
  for (const prune::GroupInfo &own : outcome.info.groups) {
    std::string unit = own.unit > 1 ? fmt::format(" of {}", own.unit) : "";
    std::string note =
        own.isFallback ? "by magnitude: no other information is available" : own.reason;
    text += fmt::format("  {:<{}}  {:>5} -> {:<5}{}  {}\n", title(own), longest, own.width,
                        own.kept, unit, note);
  }
  for (const prune::FixedInfo &own : outcome.info.fixed) {
    text += fmt::format("  {:<{}}  {:>5} stays  {}\n", view::visible(own.node), longest, own.width,
                        view::visible(own.reason));
  }
  return text;
}

} // namespace tenon::tool

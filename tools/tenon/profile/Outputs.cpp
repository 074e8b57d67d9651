// Writes the forms. Names are the model's, and text in all of them is escaped by JSON alone.

#include "tools/tenon/profile/Outputs.h"

#include "tools/tenon/print/Format.h"
#include "tools/view/Escape.h"
#include "tools/view/Page.h"

#include <algorithm>
#include <filesystem>

namespace tenon::tool {
namespace {

constexpr std::string_view kPage =
#include "tools/tenon/profile/page.html.inc"
    ;
constexpr std::string_view kStyle =
#include "tools/tenon/profile/page.css.inc"
    ;
constexpr std::string_view kScript =
#include "tools/tenon/profile/page.js.inc"
    ;

Json event(const std::string &name, double start, double microseconds, int track, Json arguments) {
  return {{"name", name},
          {"ph", "X"},
          {"ts", start},
          {"dur", microseconds},
          {"pid", 1},
          {"tid", track},
          {"args", std::move(arguments)}};
}

Json trackName(int track, const char *name) {
  return {
      {"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", track}, {"args", {{"name", name}}}};
}

Json tensorsOf(const std::vector<TensorFigures> &tensors) {
  Json list = Json::array();
  for (const TensorFigures &tensor : tensors) {
    list.push_back({{"Name", tensor.name},
                    {"Location", "Host"},
                    {"Dimensions", tensor.dims},
                    {"Format/Datatype", "Row major linear " + tensor.dtype}});
  }
  return list;
}

/// Regions in the order in which they run.
std::vector<const RegionFigures *> inOrder(const Profile &profile) {
  std::vector<const RegionFigures *> regions;
  for (const RegionFigures &region : profile.regions) {
    if (!region.instructions.empty()) {
      regions.push_back(&region);
    }
  }
  std::ranges::sort(regions, {},
                    [](const RegionFigures *region) { return region->instructions.front(); });
  return regions;
}

} // namespace

std::string pageOf(const Profile &profile) {
  return view::fillPage(
      kPage, {{"{{title}}", view::xml(std::filesystem::path(profile.path).filename().string())},
              {"{{style}}", std::string(kStyle)},
              {"{{profile}}", view::scriptJson(toJson(profile))},
              {"{{script}}", std::string(kScript)}});
}

std::string traceOf(const Profile &profile) {
  constexpr int kRegions = 1, kOperators = 2;
  Json events = {trackName(kRegions, "regions"),
                 trackName(kOperators, "operators (split by the model in fused regions)")};
  double start = 0;
  for (const RegionFigures *region : inOrder(profile)) {
    events.push_back(event(region->label, start, region->seconds * 1e6, kRegions,
                           {{"kernel", region->kernel},
                            {"class", nameOf(region->bound)},
                            {"cause", region->cause},
                            {"flops", region->flops},
                            {"bytes", region->bytes}}));
    double within = start;
    for (size_t index : region->operators) {
      const OperatorFigures &node = profile.operators[index];
      events.push_back(
          event(node.name, within, node.seconds * 1e6, kOperators,
                {{"kind", node.kind}, {"module", node.module}, {"source", node.source}}));
      within += node.seconds * 1e6;
    }
    start += region->seconds * 1e6;
  }
  return dumpJson({{"traceEvents", events}, {"displayTimeUnit", "ms"}}) + "\n";
}

std::string layersOf(const Profile &profile) {
  Json layers = Json::array(), bindings = Json::array();
  for (const RegionFigures *region : inOrder(profile)) {
    std::string nodes;
    for (size_t index : region->operators) {
      nodes += (nodes.empty() ? "" : "\x1f") + profile.operators[index].name;
    }
    layers.push_back({{"Name", region->label},
                      {"LayerType", region->strategy},
                      {"Inputs", tensorsOf(region->reads)},
                      {"Outputs", tensorsOf(region->writes)},
                      {"TacticName", region->kernel},
                      {"StreamId", 0},
                      {"Metadata", nodes}});
  }
  for (const std::string &port : profile.ports) {
    bindings.push_back(port);
  }
  return dumpJson({{"Layers", layers}, {"Bindings", bindings}}) + "\n";
}

std::string layerTimesOf(const Profile &profile) {
  // The first row counts the runs of which the others have sums.
  size_t runs = std::max<size_t>(profile.measured.passes - profile.measured.discarded, 1);
  Json rows = Json::array({Json{{"count", runs}}});
  for (const RegionFigures *region : inOrder(profile)) {
    double milliseconds = region->seconds * 1e3;
    rows.push_back({{"name", region->label},
                    {"timeMs", milliseconds * static_cast<double>(runs)},
                    {"averageMs", milliseconds},
                    {"medianMs", region->medianSeconds * 1e3},
                    {"percentage", profile.share(region->seconds) * 100}});
  }
  return dumpJson(rows) + "\n";
}

} // namespace tenon::tool

// Implements the tables: one for each metric, a row for each model, and one of what the models
// cost.

#include "tools/tenon/accuracy/Report.h"

#include "tools/tenon/print/Format.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

/// Shares in percent; a number that is none as a dash.
std::string numberText(const Json &value, bool isPercent, bool isSigned = false) {
  if (value.is_null()) {
    return "-";
  }
  double number = value.get<double>();
  return isPercent  ? fmt::format(fmt::runtime(isSigned ? "{:+.2f}" : "{:.2f} %"), number * 100)
         : isSigned ? fmt::format("{:+.5g}", number)
                    : fmt::format("{:.5g}", number);
}

std::string intervalText(const Json &interval, bool isPercent) {
  if (interval.is_null()) {
    return "";
  }
  auto end = [&](const Json &value) {
    return value.is_null() ? "-"
           : isPercent     ? fmt::format("{:.2f}", value.get<double>() * 100)
                           : fmt::format("{:.5g}", value.get<double>());
  };
  return fmt::format("{} .. {}", end(interval[0]), end(interval[1]));
}

/// A metric that is no finite number, as of outputs that are none, is worse than any that is one.
std::string resultOf(const Json &difference, const Json &value, const Json &better) {
  if (difference["differs"].is_null()) {
    return "";
  }
  if (!difference["differs"].get<bool>()) {
    return "no difference shown";
  }
  if (better.is_null()) {
    return "differs";
  }
  bool isFinite = difference["value"].is_number();
  bool isBetter = isFinite ? (difference["value"].get<double>() > 0) == (better == "higher")
                           : value.is_number();
  return isBetter ? "better" : "worse";
}

constexpr size_t kMaxName = 40;

std::string nameOf(const Json &model) {
  return view::shortened(view::visible(model["model"].get<std::string>()), kMaxName);
}

size_t widthOf(const Json &models) {
  size_t width = 0;
  for (const Json &model : models) {
    width = std::max(width, nameOf(model).size());
  }
  return width;
}

/// A line without spaces at its end.
std::string withoutEnd(const std::string &row) {
  return row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
}

std::string metricText(const Json &metric, size_t width) {
  bool isPercent = metric["unit"] == "share";
  std::string name = view::shortened(view::visible(metric["metric"].get<std::string>()), kMaxName);
  std::string text =
      withoutEnd(fmt::format("{:<{}}  {:>10}  {:<18}  {}", name, width + 2, "", "95 % interval",
                             metric["models"].size() > 1 ? "difference to the first" : ""));
  for (const Json &model : metric["models"]) {
    std::string row = fmt::format("  {:<{}}  {:>10}  {:<18}", nameOf(model), width,
                                  numberText(model["value"], isPercent),
                                  intervalText(model["interval_95"], isPercent));
    if (model.contains("difference")) {
      const Json &difference = model["difference"];
      std::string interval = intervalText(difference["interval_95"], isPercent);
      row += fmt::format("  {}{}  {}", numberText(difference["value"], isPercent, true),
                         interval.empty() ? "" : fmt::format(" ({})", interval),
                         resultOf(difference, model["value"], metric["better"]));
    }
    text += withoutEnd(row);
  }
  return text;
}

std::string costText(const Json &models, size_t width) {
  std::string text =
      fmt::format("{:<{}}  {:>10}  {:<18}  {:>10}  {:>10}  {:>12}\n", "cost", width + 2, "latency",
                  models.size() > 1 ? "x the first's" : "", "file", "engine", "peak memory");
  for (const Json &model : models) {
    std::string ratio;
    if (model.contains("latency_ratio")) {
      const Json &interval = model["latency_ratio"]["interval_95"];
      ratio = fmt::format("{:.2f} ({:.2f} .. {:.2f})",
                          model["latency_ratio"]["of_medians"].get<double>(),
                          interval[0].get<double>(), interval[1].get<double>());
    }
    text += fmt::format("  {:<{}}  {:>7.3f} ms  {:<18}  {:>10}  {:>10}  {:>12}\n", nameOf(model),
                        width, model["latency_ms"]["median"].get<double>(), ratio,
                        formatBytes(model["file_bytes"].get<uint64_t>()),
                        formatBytes(model["engine_bytes"].get<uint64_t>()),
                        formatBytes(model["peak_memory_bytes"].get<uint64_t>()));
  }
  return text;
}

} // namespace

Json finiteOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string accuracyText(const Json &result) {
  size_t width = widthOf(result["models"]);
  std::string text =
      fmt::format("{}: {} samples\n\n", view::visible(result["data"].get<std::string>()),
                  result["samples"].get<size_t>());
  for (const Json &metric : result["metrics"]) {
    text += metricText(metric, width) + "\n";
  }
  return text + costText(result["models"], width);
}

} // namespace tenon::tool

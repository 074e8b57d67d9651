// Implements the texts. A screen has the largest first and says how much it leaves out.

#include "tools/tenon/print/ExplainText.h"

#include "tools/tenon/print/ExplainParts.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/tenon/print/PartsText.h"
#include "tools/view/Sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

namespace tenon::tool {
std::string joinTexts(const Json &list) {
  std::vector<std::string> texts;
  for (const Json &item : list) {
    texts.push_back(item.is_string() ? item.get<std::string>() : dumpJson(item));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string timeText(double microseconds) {
  return microseconds < 1e3   ? fmt::format("{:.2f} us", microseconds)
         : microseconds < 1e6 ? fmt::format("{:.2f} ms", microseconds / 1e3)
                              : fmt::format("{:.2f} s", microseconds / 1e6);
}

std::string basisText(const Json &record) {
  std::string text = fmt::format("times are estimates for {} of '{}', each of the chosen kernel",
                                 textAt(record, "level"), textAt(record, "profile"));
  if (record.contains("decided_on")) {
    text +=
        fmt::format("\nkernels were chosen for {}, which this level shares plan and kernels with",
                    textAt(record, "decided_on"));
  }
  std::string sizes = view::sizesText(listAt(record, "sizes"));
  if (sizes.empty()) {
    return text + "\n";
  }
  text += fmt::format("\nsizes: {}; --shape INPUT:SIZES shows others", sizes);
  if (record.contains("decided_at")) {
    text +=
        fmt::format(" (kernels were chosen at {})", view::sizesText(listAt(record, "decided_at")));
  }
  if (record.value("own_plan", false)) {
    text +=
        "\nat these sizes the engine runs a plan of its own (--optimize-for); this is about the "
        "general one";
  }
  return text + "\n";
}

namespace {

/// Lines of a screen, and how many rows its tables have: together they fit.
constexpr size_t kScreenLines = 40;
constexpr size_t kMaxStrategies = 7, kMaxRegions = 8, kMaxRules = 7, kMaxFamilies = 14;

std::string costText(const Json &cost) {
  std::string text =
      fmt::format("{:.2f} us ({}, {} launches", cost.value("us", 0.0),
                  formatBytes(static_cast<uint64_t>(std::max<int64_t>(numberAt(cost, "bytes"), 0))),
                  numberAt(cost, "launches"));
  if (numberAt(cost, "registers") > 0) {
    text += fmt::format(", {} registers, occupancy {} %", numberAt(cost, "registers"),
                        numberAt(cost, "occupancy"));
  }
  return text + ")";
}

double microsecondsOf(const Json &region) {
  return region.value("cost", Json::object()).value("us", 0.0);
}

/// The name of the longest region's first node as an argument, or NODE where it has none or a shell
/// would read something else into it.
std::string nodeOf(const std::vector<const Json *> &longest) {
  Json nodes = longest.empty() ? Json::array() : listAt(*longest.front(), "nodes");
  std::string name = nodes.empty() ? "" : nodes.front().get<std::string>();
  bool isPlain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_./+:-").find(c) != std::string::npos;
  });
  return isPlain ? name : "NODE";
}

/// What is done after a screen: commands, each with what it is for.
std::string nextText(const std::vector<std::pair<std::string, const char *>> &steps) {
  std::string text;
  for (const auto &[command, what] : steps) {
    text += fmt::format("{}  tenon {}\n          {}\n", text.empty() ? "\nnext" : "    ", command,
                        what);
  }
  return text;
}

struct Sum {
  int64_t regions = 0;
  double microseconds = 0;
};

/// Regions by what they have in common, the longest first; the last row stands for all that would
/// be too many.
std::string sumsText(const Json &regions, const char *title, size_t most,
                     std::string (*keyOf)(const Json &)) {
  std::map<std::string, Sum> sums;
  Sum all;
  for (const Json &region : regions) {
    for (Sum *each : {&sums[keyOf(region)], &all}) {
      ++each->regions;
      each->microseconds += microsecondsOf(region);
    }
  }
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto &one, const auto &other) {
    return one.second.microseconds > other.second.microseconds;
  });
  Sum others;
  for (size_t i = most; i < sorted.size(); ++i) {
    others.regions += sorted[i].second.regions;
    others.microseconds += sorted[i].second.microseconds;
  }
  sorted.resize(std::min(sorted.size(), most));
  if (others.regions > 0) {
    sorted.emplace_back("others", others);
  }
  sorted.emplace_back("together", all);
  std::string text = fmt::format("{:>8}  {:>11}  {}\n", "regions", "about", title);
  for (const auto &[key, sum] : sorted) {
    text += fmt::format("{:>8}  {:>11}  {}\n", sum.regions, timeText(sum.microseconds), key);
  }
  return text;
}

std::string familyOf(const Json &region) {
  std::string kernel = textAt(region, "kernel");
  return kernel.substr(0, kernel.find('{'));
}

std::vector<const Json *> longestFirst(const Json &regions) {
  std::vector<const Json *> sorted;
  for (const Json &region : regions) {
    sorted.push_back(&region);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const Json *one, const Json *other) {
    return microsecondsOf(*one) > microsecondsOf(*other);
  });
  return sorted;
}

/// The regions that take the most, with their kernels.
std::string longestText(const std::vector<const Json *> &regions) {
  size_t count = std::min(regions.size(), kMaxRegions);
  std::string text = fmt::format(
      "\n{:>11}  {:<28}  {}\n", "about", "kernel",
      regions.size() > count ? fmt::format("the {} longest of {} regions", count, regions.size())
                             : "region");
  for (size_t i = 0; i < count; ++i) {
    std::string kernel = textAt(*regions[i], "kernel");
    text += fmt::format("{:>11}  {:<28}  {}\n", timeText(microsecondsOf(*regions[i])),
                        kernel.size() > 28 ? familyOf(*regions[i]) : kernel,
                        textAt(*regions[i], "label"));
  }
  return text;
}

/// By which rules neighbours stayed apart, the most frequent first.
std::string rulesText(const Json &edges) {
  std::map<std::string, std::pair<int64_t, std::string>> rules;
  for (const Json &edge : edges) {
    auto &[count, why] = rules[textAt(edge, "rule")];
    ++count;
    why = textAt(edge, "why");
  }
  std::vector<std::pair<std::string, std::pair<int64_t, std::string>>> sorted(rules.begin(),
                                                                              rules.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto &one, const auto &other) {
    return one.second.first > other.second.first;
  });
  std::string text = fmt::format("\n{:>8}  neighbours that stayed apart, by rule\n", edges.size());
  for (size_t i = 0; i < std::min(sorted.size(), kMaxRules); ++i) {
    const auto &[rule, counted] = sorted[i];
    text += fmt::format("{:>8}  {}: {}\n", counted.first, rule, counted.second);
  }
  return text;
}

std::string fusionScreen(const Explained &what) {
  Json regions = listAt(what.record, "regions");
  std::vector<const Json *> sorted = longestFirst(regions);
  std::string node = nodeOf(sorted);
  return basisText(what.record) + "\n" +
         sumsText(regions, "strategy", kMaxStrategies,
                  [](const Json &region) { return textAt(region, "strategy"); }) +
         longestText(sorted) + rulesText(listAt(what.record, "edges")) +
         nextText({{fmt::format("explain fusion {} {}", what.engine, node),
                    "why it is one kernel, and what each neighbour stood apart for; --all for all"},
                   {fmt::format("explain kernels {} {}", what.engine, node),
                    "which other kernels could compute it, and what they would take"},
                   {fmt::format("bench {} --regions", what.engine),
                    "what each region really takes on this machine"}});
}

/// What one kernel would save by the estimate, with what stood against it.
std::string savingText(const Json &edge, double microseconds) {
  return microseconds > 0
             ? fmt::format("one kernel would save {:.2f} us by the estimate, not taken: {}",
                           microseconds, textAt(edge, "rule"))
             : fmt::format("one kernel would take {:.2f} us more", -microseconds);
}

/// The numbers of a decision, with the sizes and the level that they are for where those shown are
/// others.
std::string decidedText(const Json &record, const Json &edge) {
  std::string decided = textAt(edge, "decided");
  if (decided.empty()) {
    return "their form";
  }
  std::vector<std::string> others;
  if (record.contains("decided_at")) {
    others.push_back("at " + view::sizesText(listAt(record, "decided_at")));
  }
  if (record.contains("decided_on")) {
    others.push_back("on " + textAt(record, "decided_on"));
  }
  return others.empty() ? decided : fmt::format("{} ({})", decided, fmt::join(others, ", "));
}

/// How much of the weights lies in each way, and how much of the model's that was made from.
std::string weightsText(const Json &weights) {
  std::string text;
  for (const Json &form : weights) {
    text += fmt::format("{:>12}  {:>5} {}, from {}\n", formatBytes(numberAt(form, "bytes")),
                        numberAt(form, "arrays"), textAt(form, "form"),
                        formatBytes(numberAt(form, "source_bytes")));
  }
  return text;
}

} // namespace

std::string fusionText(const Explained &what) {
  if (what.extent == Extent::Screen) {
    return fusionScreen(what);
  }
  const Json &record = what.record;
  std::string text = basisText(record) + "\n";
  for (const Json &region : listAt(record, "regions")) {
    text +=
        fmt::format("region {}\n  {} on {}: {}\n", textAt(region, "label"),
                    textAt(region, "strategy"), textAt(region, "target"), textAt(region, "reason"));
    text += fmt::format("  operations: {}\n", joinTexts(listAt(region, "operations")));
    text += fmt::format("  kernel: {}\n", textAt(region, "kernel"));
    text += fmt::format("  cost: {}\n", costText(region.value("cost", Json::object())));
  }
  Json edges = listAt(record, "edges");
  text += fmt::format("\n{} neighbours that were not fused\n", edges.size());
  for (const Json &edge : edges) {
    Json apart = edge.value("apart", Json::object());
    Json fused = edge.value("fused", Json::object());
    text += fmt::format("{} -> {}\n  {}: {}\n", textAt(edge, "producer"), textAt(edge, "consumer"),
                        textAt(edge, "rule"), textAt(edge, "why"));
    text += fmt::format("  decided by {}\n", decidedText(record, edge));
    text += fmt::format("  apart {}; as one {}; {}\n", costText(apart), costText(fused),
                        savingText(edge, apart.value("us", 0.0) - fused.value("us", 0.0)));
  }
  return text;
}

std::string kernelsText(const Explained &what) {
  Json all = listAt(what.record, "regions");
  std::string text = basisText(what.record) + "\n";
  if (what.extent == Extent::Screen) {
    std::vector<const Json *> sorted = longestFirst(all);
    std::string node = nodeOf(sorted);
    return text + priceText(all) + sumsText(all, "kernel family", kMaxFamilies, familyOf) +
           longestText(sorted) +
           nextText({{fmt::format("explain kernels {} {}", what.engine, node),
                      "what every family answered for it; --all lists all regions"},
                     {fmt::format("compile MODEL --kernel {}=FAMILY -o OTHER", node),
                      "the same with another kernel; tenon bench --ab compares the two"}});
  }
  for (const Json &region : all) {
    text += fmt::format("{}\n  {}, about {}\n", textAt(region, "label"), textAt(region, "kernel"),
                        timeText(microsecondsOf(region)));
    text += freelyText(region);
    if (what.extent == Extent::All) {
      continue;
    }
    for (const Json &candidate : listAt(region, "candidates")) {
      double predicted = candidate.value("us", 0.0);
      text += fmt::format("  {:<9}{}{}: {}\n", textAt(candidate, "verdict"),
                          predicted > 0 ? fmt::format("{:.2f} us  ", predicted) : "",
                          textAt(candidate, "kernel"), textAt(candidate, "why"));
      text += partsText(candidate);
    }
  }
  return text;
}

std::string memoryText(const Explained &what) {
  const Json &record = what.record;
  auto bytes = [&](const char *key) {
    return formatBytes(static_cast<uint64_t>(std::max<int64_t>(numberAt(record, key), 0)));
  };
  std::string text = fmt::format(
      "arena {} (at least {} are live at once), planned {}; weights {}\n", bytes("arena_bytes"),
      bytes("arena_lower_bound_bytes"),
      textAt(record, "planned") == "compile time" ? "at compile time" : textAt(record, "planned"),
      bytes("weights_bytes"));
  text += weightsText(listAt(record, "weights"));
  if (!record.value("smallest", Json::object()).empty()) {
    Json sizes = Json::array();
    for (const auto &[name, size] : record["smallest"].items()) {
      sizes.push_back({{"name", name}, {"size", size}});
    }
    text += fmt::format("sizes: {}, the smallest that are declared; bytes without an offset are "
                        "formulas\n",
                        view::sizesText(sizes));
  }
  text += fmt::format("\n{:>6}  {:<6}  {:>9}  {:>12}  {:>12}  {}\n", "buffer", "space", "life",
                      "bytes", "offset", "value");
  for (const Json &buffer : listAt(record, "buffers")) {
    bool inArena = textAt(buffer, "space") == "arena";
    std::string life =
        inArena ? fmt::format("{}..{}", numberAt(buffer, "first"), numberAt(buffer, "last")) : "";
    std::string size = inArena ? textAt(buffer, "bytes_at_smallest") : textAt(buffer, "bytes");
    text +=
        fmt::format("{:>6}  {:<6}  {:>9}  {:>12}  {:>12}  {}", numberAt(buffer, "buffer"),
                    textAt(buffer, "space"), life, size,
                    inArena ? textAt(buffer, "offset_at_smallest") : "", textAt(buffer, "value"));
    Json inPlace = listAt(buffer, "in_place");
    text += inPlace.empty() ? "\n" : fmt::format("  (written over by {})\n", joinTexts(inPlace));
  }
  return text;
}

std::string placementText(const Explained &what) {
  const Json &record = what.record;
  std::string text = fmt::format("level {}\n\n", textAt(record, "level"));
  for (const Json &row : listAt(record, "instructions")) {
    text += fmt::format("{:>5}  {:<7} {:<4} {:<14} {}", numberAt(row, "instruction"),
                        textAt(row, "kind"), textAt(row, "device"), textAt(row, "strategy"),
                        textAt(row, "label"));
    if (row.contains("kernel")) {
      text += fmt::format("  (over {})", textAt(row, "grid"));
    }
    text += "\n";
  }
  return text;
}

std::string passesText(const Explained &what) {
  const Json &record = what.record;
  std::string text;
  for (const Json &pass : listAt(record, "passes")) {
    text += fmt::format(
        "{} ({}): {} nodes before, {} after, {} edits; outputs changed by {}\n",
        textAt(pass, "name"), textAt(pass, "phase"), numberAt(pass, "nodes_before"),
        numberAt(pass, "nodes_after"), numberAt(pass, "edits"),
        pass.value("largest_change", Json()).is_number()
            ? fmt::format("{:.3g} of their largest element", pass["largest_change"].get<double>())
        : numberAt(pass, "edits") == 0 ? "nothing"
                                       : "what was not measured");
  }
  return text;
}

std::string firstScreen(const std::string &text, const std::string &topic,
                        const std::string &engine) {
  constexpr size_t kept = kScreenLines - 3;
  size_t lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines <= kScreenLines) {
    return text;
  }
  size_t end = 0;
  for (size_t i = 0; i < kept; ++i) {
    end = text.find('\n', end) + 1;
  }
  return text.substr(0, end) + fmt::format("and {} more lines\n\nnext  tenon explain {} {} --all\n",
                                           lines - kept, topic, engine);
}

} // namespace tenon::tool

// `tenon explain TOPIC ENGINE [NODE]`: prints the decisions that the engine carries.
// The records are written by the compiler; this file only selects and words them.

#include "engine/Reader.h"
#include "support/NearestName.h"
#include "tools/tenon/FileKind.h"
#include "tools/tenon/JsonFields.h"
#include "tools/tenon/Options.h"
#include "tools/tenon/Terminal.h"
#include "tools/tenon/Verb.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>

namespace tenon::tool {
namespace {

constexpr int64_t kSupportedSchema = 1;

struct ExplainFlags {
  std::string topic;
  std::string engine;
  std::string node;
};

std::string joinTexts(const Json &list) {
  std::vector<std::string> texts;
  for (const Json &item : list) {
    texts.push_back(item.is_string() ? item.get<std::string>() : dumpJson(item));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool listContains(const Json &list, const std::string &text) {
  return std::any_of(list.begin(), list.end(), [&](const Json &item) { return item == text; });
}

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

/// Whether a region holds the node or carries its name.
bool regionMatches(const Json &region, const std::string &node) {
  return textAt(region, "label") == node || listContains(listAt(region, "nodes"), node);
}

/// Keeps the regions of a node and the edges at it or at them.
Json selectFusion(const Json &record, const std::string &node) {
  Json regions = Json::array();
  std::vector<int64_t> chosen;
  int64_t index = 0;
  for (const Json &region : listAt(record, "regions")) {
    if (regionMatches(region, node)) {
      chosen.push_back(index);
      regions.push_back(region);
    }
    ++index;
  }
  Json edges = Json::array();
  for (const Json &edge : listAt(record, "edges")) {
    bool touchesRegion = std::any_of(chosen.begin(), chosen.end(), [&](int64_t region) {
      return numberAt(edge, "producerRegion") == region ||
             numberAt(edge, "consumerRegion") == region;
    });
    if (touchesRegion || textAt(edge, "producer") == node || textAt(edge, "consumer") == node) {
      edges.push_back(edge);
    }
  }
  Json selected = record;
  selected["regions"] = regions;
  selected["edges"] = edges;
  return selected;
}

/// One screen: what the regions of each strategy are predicted to take, the most first, and by
/// which rules neighbours stayed apart.
std::string fusionSummary(const Json &record) {
  struct Sum {
    int64_t regions = 0;
    double microseconds = 0;
  };
  std::map<std::string, Sum> strategies;
  std::map<std::string, int64_t> rules;
  Sum all;
  for (const Json &region : listAt(record, "regions")) {
    double microseconds = region.value("cost", Json::object()).value("us", 0.0);
    Sum &sum = strategies[textAt(region, "strategy")];
    for (Sum *each : {&sum, &all}) {
      ++each->regions;
      each->microseconds += microseconds;
    }
  }
  for (const Json &edge : listAt(record, "edges")) {
    ++rules[textAt(edge, "rule")];
  }
  std::vector<std::pair<std::string, Sum>> sorted(strategies.begin(), strategies.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto &one, const auto &other) {
    return one.second.microseconds > other.second.microseconds;
  });
  std::string text =
      fmt::format("costs by the profile '{}'; a size that varies counts as 128, or as the "
                  "nearest that is allowed\n\n{:>8}  {:>12}  {}\n",
                  textAt(record, "profile"), "regions", "predicted us", "strategy");
  for (const auto &[strategy, sum] : sorted) {
    text += fmt::format("{:>8}  {:>12.2f}  {}\n", sum.regions, sum.microseconds, strategy);
  }
  text +=
      fmt::format("{:>8}  {:>12.2f}  together\n\n{:>8}  neighbours that stayed apart, by rule\n",
                  all.regions, all.microseconds, listAt(record, "edges").size());
  for (const auto &[rule, count] : rules) {
    text += fmt::format("{:>8}  {}\n", count, rule);
  }
  return text + "\n";
}

/// What one kernel would save by the estimate, with what stood against it.
std::string savingText(const Json &edge, double microseconds) {
  return microseconds > 0
             ? fmt::format("one kernel would save {:.2f} us by the estimate, not taken: {}",
                           microseconds, textAt(edge, "rule"))
             : fmt::format("one kernel would take {:.2f} us more", -microseconds);
}

std::string fusionText(const Json &record, bool isChosen) {
  std::string text = isChosen
                         ? fmt::format("costs by the profile '{}'\n\n", textAt(record, "profile"))
                         : fusionSummary(record);
  for (const Json &region : listAt(record, "regions")) {
    text +=
        fmt::format("region {}\n  {} on {}: {}\n", textAt(region, "label"),
                    textAt(region, "strategy"), textAt(region, "target"), textAt(region, "reason"));
    text += fmt::format("  operations: {}\n", joinTexts(listAt(region, "operations")));
    text += fmt::format("  cost: {}\n", costText(region.value("cost", Json::object())));
  }
  Json edges = listAt(record, "edges");
  text += fmt::format("\n{} neighbours that were not fused\n", edges.size());
  for (const Json &edge : edges) {
    Json apart = edge.value("apart", Json::object());
    Json fused = edge.value("fused", Json::object());
    text += fmt::format("{} -> {}\n  {}: {}\n", textAt(edge, "producer"), textAt(edge, "consumer"),
                        textAt(edge, "rule"), textAt(edge, "why"));
    std::string decided = textAt(edge, "decided");
    text += fmt::format("  decided by {}\n", decided.empty() ? "their form" : decided);
    text += fmt::format("  apart {}; as one {}; {}\n", costText(apart), costText(fused),
                        savingText(edge, apart.value("us", 0.0) - fused.value("us", 0.0)));
  }
  return text;
}

Json selectRows(const Json &record, const char *list, const std::string &node,
                std::initializer_list<const char *> keys) {
  Json rows = Json::array();
  for (const Json &row : listAt(record, list)) {
    bool matches = std::any_of(keys.begin(), keys.end(),
                               [&](const char *key) { return textAt(row, key) == node; });
    if (matches || listContains(listAt(row, "in_place"), node) ||
        listContains(listAt(row, "nodes"), node)) {
      rows.push_back(row);
    }
  }
  Json selected = record;
  selected[list] = rows;
  return selected;
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

std::string memoryText(const Json &record) {
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
    text += fmt::format("figures are for the smallest declared dimensions: {}\n",
                        dumpJson(record["smallest"]));
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

std::string placementText(const Json &record) {
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

std::string precisionText(const Json &record) {
  std::string text =
      fmt::format("{}: {} operations are narrow, {} weights take {}\n", textAt(record, "precision"),
                  numberAt(record, "narrow_operations"), numberAt(record, "narrow_weights"),
                  formatBytes(static_cast<uint64_t>(
                      std::max<int64_t>(numberAt(record, "narrow_weights_bytes"), 0))));
  constexpr std::array<std::pair<const char *, std::string_view>, 3> lists = {{
      {"wider", "operations stay in fp32"},
      {"clamped", "values are clamped"},
      {"approximated", "operations are approximated"},
  }};
  for (const auto &[list, what] : lists) {
    Json rows = listAt(record, list);
    text += fmt::format("\n{} {}\n", rows.size(), what);
    for (const Json &row : rows) {
      Json nodes = listAt(row, "nodes");
      text +=
          fmt::format("{}\n  {}: {}\n", nodes.empty() ? textAt(row, "operation") : joinTexts(nodes),
                      textAt(row, "rule"), textAt(row, "why"));
    }
  }
  return text;
}

std::string passesText(const Json &record) {
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

/// How many regions each family computes, then each region's kernel; of chosen regions every
/// family's answer.
std::string kernelsText(const Json &record, bool isChosen) {
  std::map<std::string, int64_t> counts;
  std::string regions;
  for (const Json &region : listAt(record, "regions")) {
    std::string kernel = textAt(region, "kernel");
    ++counts[kernel.substr(0, kernel.find('{'))];
    regions += fmt::format("{}\n  {}\n", textAt(region, "label"), kernel);
    for (const Json &candidate : isChosen ? listAt(region, "candidates") : Json::array()) {
      double predicted = candidate.value("us", 0.0);
      regions += fmt::format("  {:<9}{}{}: {}\n", textAt(candidate, "verdict"),
                             predicted > 0 ? fmt::format("{:.2f} us  ", predicted) : "",
                             textAt(candidate, "kernel"), textAt(candidate, "why"));
    }
  }
  std::string text;
  for (const auto &[family, count] : counts) {
    text += fmt::format("{:>5}  {}\n", count, family);
  }
  return isChosen ? regions : text + "\n" + regions;
}

Json selectLists(
    const Json &record, const std::string &node,
    std::initializer_list<std::pair<const char *, std::initializer_list<const char *>>> lists) {
  Json selected = record;
  for (const auto &[list, keys] : lists) {
    selected = selectRows(selected, list, node, keys);
  }
  return selected;
}

/// One thing that can be explained. A new one is a row here.
struct Topic {
  const char *name;
  const char *record; ///< of the engine
  Json (*select)(const Json &record, const std::string &node);
  std::string (*text)(const Json &record, bool isChosen);
  /// Why an engine lacks the record, and what gives it; null if every engine has it.
  const char *lacking, *remedy;
};

constexpr Topic kTopics[] = {
    {"fusion", "fusion", selectFusion, fusionText, nullptr, nullptr},
    {"kernels", "fusion",
     [](const Json &record, const std::string &node) {
       return selectLists(record, node, {{"regions", {"label"}}, {"edges", {"producer"}}});
     },
     kernelsText, nullptr, nullptr},
    {"memory", "memory",
     [](const Json &record, const std::string &node) {
       return selectLists(record, node, {{"buffers", {"value"}}});
     },
     [](const Json &record, bool) { return memoryText(record); }, nullptr, nullptr},
    {"placement", "placement",
     [](const Json &record, const std::string &node) {
       return selectLists(record, node, {{"instructions", {"label", "kernel"}}});
     },
     [](const Json &record, bool) { return placementText(record); }, nullptr, nullptr},
    {"precision", "precision",
     [](const Json &record, const std::string &node) {
       return selectLists(
           record, node,
           {{"wider", {"operation"}}, {"clamped", {"operation"}}, {"approximated", {"operation"}}});
     },
     [](const Json &record, bool) { return precisionText(record); },
     "computes in the model's own precision",
     "tenon compile --precision fp16 or bf16 makes values narrow"},
    {"passes", "passes",
     [](const Json &record, const std::string &node) {
       return selectLists(record, node, {{"passes", {"name"}}});
     },
     [](const Json &record, bool) { return passesText(record); },
     "was compiled without passes of the user's", "tenon compile --plugin runs some"},
};

const Topic &topicOf(const ExplainFlags &flags) {
  return *std::find_if(std::begin(kTopics), std::end(kTopics),
                       [&](const Topic &topic) { return flags.topic == topic.name; });
}

Result<Json> readRecord(const ExplainFlags &flags) {
  const Topic &topic = topicOf(flags);
  TENON_TRY(isModel(flags.engine, Takes::Engine).takeStatus());
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(flags.engine));
  if (topic.lacking && !file->record(topic.record).isOk()) {
    return Status::error(ErrorId::BadArgument, fmt::format("{} {}", flags.engine, topic.lacking),
                         topic.remedy);
  }
  TENON_ASSIGN(std::string_view text, file->record(topic.record));
  Json record = Json::parse(text, nullptr, false);
  if (!record.is_object() || numberAt(record, "schema") != kSupportedSchema) {
    return Status::error(
        ErrorId::EngineBadRecord,
        fmt::format("{}: the record '{}' is of another version", flags.engine, flags.topic),
        "compile the model again with this version of Tenon");
  }
  return record;
}

bool isEmptySelection(const Json &record) {
  for (const char *list : {"regions", "edges", "buffers", "instructions", "wider", "clamped",
                           "approximated", "passes"}) {
    if (!listAt(record, list).empty()) {
      return false;
    }
  }
  return true;
}

/// What a NODE can be called in this record.
std::vector<std::string> namesIn(const Json &record) {
  std::vector<std::string> names;
  for (const char *list : {"regions", "edges", "buffers", "instructions", "wider", "clamped",
                           "approximated", "passes"}) {
    for (const Json &row : listAt(record, list)) {
      for (const char *key : {"label", "producer", "consumer", "value", "operation", "name"}) {
        names.push_back(textAt(row, key));
      }
      for (const Json &node : listAt(row, "nodes")) {
        names.push_back(node.is_string() ? node.get<std::string>() : "");
      }
    }
  }
  return names;
}

/// Every text of a record as one line: names are the model's.
void makeVisible(Json &json) {
  if (json.is_string()) {
    json = view::visible(json.get<std::string>());
    return;
  }
  if (json.is_structured()) {
    for (Json &part : json) {
      makeVisible(part);
    }
  }
}

Status explain(const ExplainFlags &flags, Terminal &terminal) {
  TENON_ASSIGN(Json record, readRecord(flags));
  const Topic &topic = topicOf(flags);
  bool isChosen = !flags.node.empty();
  Json selected = isChosen ? topic.select(record, flags.node) : record;
  if (isChosen && isEmptySelection(selected)) {
    return Status::error(
        ErrorId::BadArgument, fmt::format("nothing is called '{}' in this engine", flags.node),
        didYouMean(flags.node, namesIn(record),
                   fmt::format("tenon explain {} {} lists all names", flags.topic, flags.engine)));
  }
  if (terminal.json()) {
    selected.erase("schema");
    terminal.printJson("explain-" + flags.topic, selected);
    return Status::ok();
  }
  makeVisible(selected);
  terminal.print(topic.text(selected, isChosen));
  return Status::ok();
}

} // namespace

Action declareExplain(CLI::App &command) {
  std::shared_ptr<ExplainFlags> flags = std::make_shared<ExplainFlags>();
  std::vector<std::string> names;
  for (const Topic &topic : kTopics) {
    names.push_back(topic.name);
  }
  addChoice(command, "TOPIC", flags->topic, names, "What is to be explained")->required();
  command.add_option("ENGINE", flags->engine, "The engine")->required();
  command.add_option("NODE", flags->node, "A node of the model, or a region; all without it");
  return [flags](Terminal &terminal) { return explain(*flags, terminal); };
}

} // namespace tenon::tool

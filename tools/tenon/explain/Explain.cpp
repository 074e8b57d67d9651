// Relies on the compiler for the records; this file only selects, ExplainText words.

#include "tools/tenon/explain/Explain.h"

#include "engine/Reader.h"
#include "support/text/NearestName.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/inputs/Limits.h"
#include "tools/tenon/print/ExplainText.h"
#include "tools/tenon/print/FigureSizes.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/tenon/quant/SearchRecord.h"
#include "tools/view/EngineGraph.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace tenon::tool {
namespace {

constexpr int64_t kSupportedSchema = 1;

bool listContains(const Json &list, const std::string &text) {
  return std::any_of(list.begin(), list.end(), [&](const Json &item) { return item == text; });
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
  std::string (*text)(const Explained &what);
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
     memoryText, nullptr, nullptr},
    {"placement", "placement",
     [](const Json &record, const std::string &node) {
       return selectLists(record, node, {{"instructions", {"label", "kernel"}}});
     },
     placementText, nullptr, nullptr},
    {"precision", "fusion",
     [](const Json &record, const std::string &node) {
       return selectLists(record, node,
                          {{"products", {"label"}},
                           {"conversions", {"label"}},
                           {"wider", {"operation"}},
                           {"clamped", {"operation"}},
                           {"approximated", {"operation"}},
                           {"not_float8", {"operation"}},
                           {"layers", {"name"}}});
     },
     precisionText, nullptr, nullptr},
    {"passes", "passes",
     [](const Json &record, const std::string &node) {
       return selectLists(record, node, {{"passes", {"name"}}});
     },
     passesText, "was compiled without user passes", "tenon compile --plugin runs passes"},
};

/// Null where there is none of the name.
const Topic *topicOf(const ExplainRequest &request) {
  const Topic *found = std::ranges::find_if(
      kTopics, [&](const Topic &topic) { return request.topic == topic.name; });
  return found == std::end(kTopics) ? nullptr : found;
}

/// Another record of the same variant.
Result<Json> readBeside(const engine::EngineFile &file, const std::string &name) {
  TENON_ASSIGN(std::string_view text, file.record(name));
  return parseJson(text);
}

/// A record "fusion" of a level for the sizes of --shape, else for the likely ones.
Result<Json> fusionFor(const ExplainRequest &request, const engine::EngineFile &file,
                       const std::string &level) {
  TENON_ASSIGN(view::InputDims dims, figureDims(file, request.shapes));
  TENON_ASSIGN(Json fusion, view::fusionOf(file, level, dims));
  if (!listAt(fusion, "sizes").empty()) {
    fusion["own_plan"] = hasOwnPlan(file, textAt(fusion, "level"), dims);
  }
  return fusion;
}

/// Why a region is one of floats though narrower numbers could be multiplied, with what either is
/// predicted to take at the sizes and on the level that are shown.
std::string pricedText(const Json &fusion, const Json &region, const Json &other) {
  std::string text = fmt::format("it is predicted to take {:.2f} us, but {:.2f} us in {}",
                                 region.value("cost", Json::object()).value("us", 0.0),
                                 other.value("us", 0.0), textAt(other, "in"));
  return fusion.contains("decided_at") ? fmt::format("{} (decided at {})", text,
                                                     view::sizesText(listAt(fusion, "decided_at")))
                                       : text;
}

/// In which numbers the regions of a record "fusion" compute, beside what --precision did, if
/// anything: the engine's record "precision".
Result<Json> precisionOf(const engine::EngineFile &file, const std::string &suffix,
                         const Json &fusion) {
  Json record = {{"schema", kSupportedSchema},
                 {"precision", "keep"},
                 {"narrow_operations", 0},
                 {"narrow_weights", 0},
                 {"narrow_weights_bytes", 0}};
  for (const char *list : {"wider", "clamped", "approximated", "products", "conversions"}) {
    record[list] = Json::array();
  }
  for (const std::string &name : {"precision" + suffix, std::string("precision")}) {
    if (!file.record(name).isOk()) {
      continue; // an earlier version has one for all levels
    }
    TENON_ASSIGN(Json own, readBeside(file, name));
    if (own.is_object()) {
      record.update(own);
    }
    break;
  }
  double converting = 0;
  for (const Json &region : listAt(fusion, "regions")) {
    Json cost = region.value("cost", Json::object());
    double microseconds = cost.value("us", 0.0);
    Json row = {{"label", textAt(region, "label")},
                {"nodes", listAt(region, "nodes")},
                {"kernel", textAt(region, "kernel")},
                {"us", microseconds}};
    if (region.value("converts", false)) {
      record["conversions"].push_back(row);
      converting += microseconds;
    } else if (!textAt(region, "computes").empty()) {
      row["computes"] = textAt(region, "computes");
      row["why_wide"] = textAt(region, "wide");
      row["wide_us"] = row["narrow_us"] = 0.0;
      if (Json other = fieldAt(region, "other"); other.is_object()) {
        bool isWide = !textAt(row, "why_wide").empty();
        row[isWide ? "narrow_us" : "wide_us"] = other.value("us", 0.0);
        row["why_wide"] = isWide ? pricedText(fusion, region, other) : "";
      }
      record["products"].push_back(row);
    }
  }
  record["conversions_us"] = converting;
  for (const char *key : {"profile", "level", "sizes", "own_plan", "decided_at", "decided_on"}) {
    if (fusion.contains(key)) {
      record[key] = fusion[key];
    }
  }
  if (Json search = readSearchRecord(file); search.is_object()) {
    record["layers"] = std::move(search["layers"]);
    search.erase("layers");
    record["search"] = std::move(search);
  }
  return record;
}

Result<Json> readRecord(const ExplainRequest &request, const Topic &topic) {
  if (!request.shapes.empty() && std::string_view(topic.record) != "fusion") {
    return Status::error(
        ErrorId::BadArgument,
        fmt::format("--shape: explain {} does not depend on sizes", request.topic),
        "leave out --shape; explain fusion, explain precision and explain kernels accept it");
  }
  TENON_TRY(isModel(request.engine, Takes::Engine).takeStatus());
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(request.engine));
  std::string level = request.level.empty() ? variantOfThisMachine(*file) : request.level;
  TENON_ASSIGN(std::string suffix, view::recordSuffix(*file, level));
  if (topic.lacking && !file->record(topic.record).isOk()) {
    return Status::error(ErrorId::BadArgument, fmt::format("{} {}", request.engine, topic.lacking),
                         topic.remedy);
  }
  // What is said of the model as a whole has no ending.
  bool isOfVariant = file->record(topic.record + suffix).isOk();
  TENON_ASSIGN(std::string_view text, file->record(topic.record + (isOfVariant ? suffix : "")));
  Json record = parseJson(text);
  if (!record.is_object() || numberAt(record, "schema") != kSupportedSchema) {
    return Status::error(
        ErrorId::EngineBadRecord,
        fmt::format("{}: the record '{}' has another version", request.engine, request.topic),
        "compile the model again with this version of Tenon");
  }
  if (std::string_view(topic.record) == "fusion") {
    TENON_ASSIGN(record, fusionFor(request, *file, level));
  }
  if (record.contains("level") && !level.empty()) {
    record["level"] = level; // another with the same plan wrote it
  }
  return request.topic == "precision" ? precisionOf(*file, suffix, record) : Result<Json>(record);
}

/// The lists of all records whose rows are about parts of the model.
constexpr const char *kLists[] = {"regions",      "edges",       "buffers", "instructions",
                                  "products",     "conversions", "wider",   "clamped",
                                  "approximated", "passes",      "layers"};

bool isEmptySelection(const Json &record) {
  for (const char *list : kLists) {
    if (!listAt(record, list).empty()) {
      return false;
    }
  }
  return true;
}

/// What a NODE can be called in this record.
std::vector<std::string> namesIn(const Json &record) {
  std::vector<std::string> names;
  for (const char *list : kLists) {
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

} // namespace

std::vector<std::string> explainTopics() {
  std::vector<std::string> names;
  for (const Topic &topic : kTopics) {
    names.push_back(topic.name);
  }
  return names;
}

Result<Json> explainEngine(const ExplainRequest &request) {
  const Topic *topic = topicOf(request);
  if (!topic) {
    return Status::error(ErrorId::BadArgument,
                         "TOPIC: " + choiceProblem(request.topic, explainTopics()),
                         "tenon explain --help shows the usage");
  }
  TENON_ASSIGN(Json record, readRecord(request, *topic));
  Json selected = request.node.empty() ? record : topic->select(record, request.node);
  if (!request.node.empty() && isEmptySelection(selected)) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("this engine has nothing named '{}'", request.node),
                         didYouMean(request.node, namesIn(record),
                                    fmt::format("tenon explain {} {} --all lists all names",
                                                request.topic, request.engine)));
  }
  selected.erase("schema");
  return selected;
}

std::string explanationText(const ExplainRequest &request, Json explained, bool all) {
  view::makeVisible(explained);
  Extent extent = !request.node.empty() ? Extent::Chosen : all ? Extent::All : Extent::Screen;
  std::string engine = view::visible(request.engine);
  std::string text = topicOf(request)->text({explained, engine, extent});
  return extent == Extent::Screen ? firstScreen(text, request.topic, engine) : text;
}

} // namespace tenon::tool

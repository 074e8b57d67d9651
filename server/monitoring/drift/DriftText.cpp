// Drift and accuracy as JSON and as Prometheus' text; and labels as clients send them.

#include "server/monitoring/drift/Distributions.h"
#include "server/monitoring/drift/DriftMonitor.h"
#include "server/protocol/Json.h"
#include "server/protocol/MetricsText.h"

#include "registry/History.h"
#include "support/json/Json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tenon::server {
namespace {

/// Series of features are bounded for each version: a scrape stays small whatever a model has.
constexpr size_t kMaxSeries = 32;
constexpr size_t kMaxNamed = 10;

std::string timeOf(std::chrono::system_clock::time_point time) {
  return registry::timeText(
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count());
}

Json featureJson(const FeatureDrift &feature) {
  Json json = {{"feature", feature.name}, {"port", feature.isInput ? "input" : "output"}};
  auto put = [&](const char *name, const std::optional<double> &value) {
    if (value) {
      json[name] = *value;
    }
  };
  put("psi", feature.psi);
  put("psi_threshold", feature.psiThreshold);
  put("ks", feature.ks);
  put("ks_threshold", feature.ksThreshold);
  put("new", feature.newValues);
  put("lost", feature.lostValues);
  json["missing"] = feature.missing;
  put("out_of_range", feature.outOfRange);
  json["drift"] = feature.isDrift;
  return json;
}

/// A value of a label, quoted.
std::string labelText(std::string_view value) {
  std::string text = "\"";
  for (char c : value) {
    text += c == '\n' ? "\\n" : c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return text + '"';
}

struct LabelledId {
  std::string id;
  std::vector<int64_t> labels;
};

Result<std::vector<LabelledId>> parseLabels(std::string_view text) {
  auto bad = [](std::string_view what) {
    return Status::error(
        ErrorId::BadRequest, what,
        R"(for example [{"id": "a", "label": 3}], or a list of labels for a request of several rows)");
  };
  Json value;
  TENON_TRY(parseRequestJson(text, value));
  if (!value.is_array() || value.empty()) {
    return bad("labels must be a list with one entry for each request");
  }
  std::vector<LabelledId> all;
  for (const Json &each : value) {
    bool hasForm = each.is_object() && each.size() == 2 && each.contains("id") &&
                   each["id"].is_string() && each.contains("label") &&
                   (each["label"].is_number_integer() || each["label"].is_array());
    if (!hasForm) {
      return bad(fmt::format("label {} is not an id and a class", all.size()));
    }
    LabelledId labelled = {each["id"].get<std::string>(), {}};
    const Json list = each["label"].is_array() ? each["label"] : Json::array({each["label"]});
    for (const Json &label : list) {
      if (!label.is_number_integer()) {
        return bad(
            fmt::format("the label of '{}' is not a class number", labelled.id.substr(0, 64)));
      }
      labelled.labels.push_back(label.get<int64_t>());
    }
    all.push_back(std::move(labelled));
  }
  return all;
}

} // namespace

Result<std::string> DriftMonitor::describe(const std::string &model,
                                           const std::string &number) const {
  Versions::const_iterator found = versions.find(KeyLess::View(model, number));
  const MonitoredVersion *monitored = found == versions.end() ? nullptr : found->second.get();
  if (!monitored || (monitored->path.empty() && monitored->accuracy->rows.empty())) {
    return Status::error(ErrorId::NoSuchModel,
                         fmt::format("model '{}' version {} is not monitored", model, number),
                         "serve it with --drift-reference, or send labels for its requests");
  }
  TENON_TRY(Status(monitored->problem));
  if (!monitored->path.empty() && !monitored->reference) {
    return Status::error(
        ErrorId::ModelNotReady,
        fmt::format("the reference of model '{}' version {} is still being read", model, number),
        "try again");
  }
  Json features = Json::array();
  for (size_t i = 0; monitored->last && i < monitored->last->features.size(); ++i) {
    features.push_back(featureJson(monitored->last->features[i]));
  }
  Json json = {{"model", model},
               {"version", number},
               {"rows", monitored->last ? monitored->last->rows : 0},
               {"drift", monitored->last && monitored->last->isDrift},
               {"since", monitored->last ? Json(timeOf(monitored->last->since)) : Json()},
               {"until", monitored->last ? Json(timeOf(monitored->last->until)) : Json()},
               {"windows", monitored->windows},
               {"windows_with_drift", monitored->drifted},
               {"collected", monitored->collected},
               {"features", features}};
  const SampledAccuracy &accuracy = *monitored->accuracy;
  if (!accuracy.rows.empty()) {
    ShareInterval interval = wilsonInterval(accuracy.right, accuracy.rows.size());
    json["accuracy"] = {
        {"labelled", accuracy.rows.size()},
        {"right", accuracy.right},
        {"top1", static_cast<double>(accuracy.right) / static_cast<double>(accuracy.rows.size())},
        {"low", interval.low},
        {"high", interval.high}};
  }
  if (!monitored->action.empty()) {
    json["action"] = monitored->action;
  }
  return dumpJson(json);
}

Result<std::string> DriftMonitor::label(const std::string &model, std::string_view text) {
  TENON_ASSIGN(std::vector<LabelledId> all, parseLabels(text));
  Clock::time_point now = Clock::now();
  std::vector<std::string> unknown;
  for (const LabelledId &each : all) {
    size_t rows = predictions.rowsOf(model, each.id, now);
    if (rows == 0) {
      unknown.push_back(each.id);
    } else if (rows != each.labels.size()) {
      return Status::error(ErrorId::BadRequest,
                           fmt::format("'{}' has {} labels, but its request has {} rows",
                                       each.id.substr(0, 64), each.labels.size(), rows),
                           "give one label for each row; none of these was counted");
    }
  }
  uint64_t known = 0;
  for (const LabelledId &each : all) {
    if (predictions.rowsOf(model, each.id, now) == 0) {
      continue; // not kept, or twice in the list
    }
    predictions.label(model, each.id, each.labels);
    ++known;
  }
  std::pair<uint64_t, uint64_t> &counts = labels[model];
  counts.first += known;
  counts.second += all.size() - known;
  if (known == 0) {
    return Status::error(
        ErrorId::NoSuchPrediction,
        fmt::format("no prediction of model '{}' is stored for '{}'{}", model,
                    unknown.front().substr(0, 64),
                    unknown.size() > 1 ? fmt::format(" and {} more", unknown.size() - 1) : ""),
        "label requests that had an id, once, and before --label-age has passed");
  }
  Json named = Json::array();
  for (size_t i = 0; i < std::min(unknown.size(), kMaxNamed); ++i) {
    named.push_back(unknown[i].substr(0, 64));
  }
  return dumpJson({{"labelled", known}, {"unknown", all.size() - known}, {"unknown_ids", named}});
}

void DriftMonitor::appendMetrics(std::string &text) const {
  auto family = [&](std::string_view name, std::string_view type, std::string_view help,
                    auto &&write) {
    appendMetricHead(text, name, type, help);
    for (const auto &[key, version] : versions) {
      write(*version, fmt::format("{}{{model=\"{}\",version=\"{}\"", name, key.first,
                                  key.second)); // names have no characters that a label escapes
    }
  };
  auto line = [&](const std::string &series, auto value) {
    fmt::format_to(std::back_inserter(text), "{}}} {}\n", series, value);
  };
  family("tenon_drift", "gauge",
         "Whether the last window of sampled requests drifted from the reference.",
         [&](const MonitoredVersion &version, const std::string &series) {
           if (version.last) {
             line(series, version.last->isDrift ? 1 : 0);
           }
         });
  family("tenon_drift_windows_total", "counter", "Windows compared with the reference.",
         [&](const MonitoredVersion &version, const std::string &series) {
           if (version.reference) {
             line(series + ",drift=\"no\"", version.windows - version.drifted);
             line(series + ",drift=\"yes\"", version.drifted);
           }
         });
  auto features = [&](std::optional<double> FeatureDrift::*member) {
    return [&line, member](const MonitoredVersion &version, const std::string &series) {
      for (size_t i = 0; version.last && i < std::min(version.last->features.size(), kMaxSeries);
           ++i) {
        const FeatureDrift &feature = version.last->features[i];
        if (feature.*member) {
          line(fmt::format("{},feature={}", series, labelText(feature.name)), *(feature.*member));
        }
      }
    };
  };
  family("tenon_drift_psi", "gauge", "Population stability index of a feature in the last window.",
         features(&FeatureDrift::psi));
  family("tenon_drift_psi_limit", "gauge", "Threshold of that index above which a feature drifts.",
         features(&FeatureDrift::psiThreshold));
  family("tenon_drift_unusable", "gauge",
         "1 if the reference of the version cannot be used, so it is not monitored.",
         [&](const MonitoredVersion &version, const std::string &series) {
           if (!version.path.empty()) {
             line(series, version.problem.isOk() ? 0 : 1);
           }
         });
  family("tenon_sampled_accuracy", "gauge",
         "Accuracy over the last labelled rows, and the ends of its 95 % interval.",
         [&](const MonitoredVersion &version, const std::string &series) {
           const SampledAccuracy &accuracy = *version.accuracy;
           if (!accuracy.rows.empty()) {
             ShareInterval interval = wilsonInterval(accuracy.right, accuracy.rows.size());
             line(series + ",bound=\"value\"",
                  static_cast<double>(accuracy.right) / static_cast<double>(accuracy.rows.size()));
             line(series + ",bound=\"low\"", interval.low);
             line(series + ",bound=\"high\"", interval.high);
           }
         });
  appendMetricHead(text, "tenon_labels_total", "counter",
                   "Labels by whether their request was stored.");
  for (const auto &[model, counts] : labels) {
    fmt::format_to(std::back_inserter(text),
                   "tenon_labels_total{{model=\"{0}\",known=\"yes\"}} "
                   "{1}\ntenon_labels_total{{model=\"{0}\",known=\"no\"}} {2}\n",
                   model, counts.first, counts.second);
  }
  appendMetricHead(text, "tenon_drift_dropped_rows_total", "counter",
                   "Sampled rows dropped because the comparison was busy.");
  fmt::format_to(std::back_inserter(text), "tenon_drift_dropped_rows_total {}\n", droppedRows);
}

} // namespace tenon::server

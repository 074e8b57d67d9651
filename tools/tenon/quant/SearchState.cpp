// Implements the file: JSON, replaced as a whole after each measurement.

#include "tools/tenon/quant/SearchState.h"

#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "tools/tenon/print/JsonFields.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

namespace tenon::tool {
namespace {

constexpr const char *kStateSchema = "tenon.search-state/1";
constexpr uint64_t kMaxBytes = 64 << 20;

/// Numbers that JSON has not, as of outputs that are none, are null.
Json numberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

/// A number of the file; those that are absent make the whole invalid.
class Fields {
public:
  double number(const Json &row, const char *key, double least) {
    Json value = fieldAt(row, key);
    bool isGood =
        value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= least;
    areGood = areGood && isGood;
    return isGood ? value.get<double>() : 0;
  }
  /// null is infinity.
  double open(const Json &row, const char *key) {
    return row.contains(key) && row[key].is_null() ? INFINITY : number(row, key, -INFINITY);
  }
  void require(bool condition) { areGood = areGood && condition; }
  bool good() const { return areGood; }

private:
  bool areGood = true;
};

Json toJson(const MeasuredForm &form) {
  Json json = {{"value", numberOrNull(form.value)},
               {"drop", numberOrNull(form.drop)},
               {"ms", form.milliseconds},
               {"ratio", form.ratio},
               {"low", form.low},
               {"high", form.high}};
  if (form.interval) {
    json["drop_low"] = numberOrNull(form.interval->low);
    json["drop_high"] = numberOrNull(form.interval->high);
  }
  return json;
}

MeasuredForm toForm(const Json &json, Fields &fields) {
  MeasuredForm form;
  form.value = fields.open(json, "value");
  form.drop = fields.open(json, "drop");
  form.milliseconds = fields.number(json, "ms", 0);
  form.ratio = fields.number(json, "ratio", 0);
  form.low = fields.number(json, "low", 0);
  form.high = fields.number(json, "high", 0);
  if (json.contains("drop_low")) {
    form.interval = Interval{fields.open(json, "drop_low"), fields.open(json, "drop_high")};
  }
  return form;
}

Status refuseState(const std::string &path, std::string_view why) {
  return Status::error(ErrorId::BadSearchState, fmt::format("{}: {}", path, why),
                       "remove it to start over, or give the output another name with -o");
}

/// null where there is none.
Result<Json> readFile(const std::string &path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return Json();
  }
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  Bytes bytes = file.bytes();
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  Json json = bytes.size() > kMaxBytes ? Json() : parseJson(text);
  return textAt(json, "schema") == kStateSchema
             ? Result<Json>(std::move(json))
             : refuseState(path, "is where the search keeps its state, but is not a search state");
}

void readTreatments(const Json &json, const std::vector<std::string> &treatmentsOf,
                    SearchState &state, Fields &fields) {
  Json rows = listAt(json, "treatments");
  fields.require(rows.empty() || rows.size() == treatmentsOf.size());
  for (size_t i = 0; fields.good() && i < rows.size(); ++i) {
    fields.require(rows[i].is_array() && rows[i].size() == treatmentsOf[i].size());
    state.treatments.emplace_back();
    for (const Json &row : rows[i].is_array() ? rows[i] : Json::array()) {
      MeasuredTreatment treatment{fields.number(row, "ms", 0), std::nullopt};
      if (row.is_object() && row.contains("error")) {
        treatment.error = row["error"].is_null() ? INFINITY : fields.number(row, "error", 0);
      }
      state.treatments.back().push_back(treatment);
    }
  }
}

} // namespace

Status SearchState::check(const std::string &path) {
  TENON_TRY(AtomicFile::create(path).takeStatus());
  return readFile(path).takeStatus();
}

Result<SearchState> SearchState::load(const std::string &path, const std::string &key,
                                      const std::vector<std::string> &treatmentsOf) {
  SearchState state;
  state.key = key;
  TENON_ASSIGN(Json json, readFile(path));
  if (json.is_null()) {
    return state;
  }
  if (textAt(json, "key") != key) {
    return refuseState(
        path,
        "the state of a search for another model, other samples, other options or another machine");
  }
  Fields fields;
  state.modelMilliseconds = fields.number(json, "model_ms", 0);
  readTreatments(json, treatmentsOf, state, fields);
  Json forms = fieldAt(json, "forms");
  fields.require(forms.is_object());
  for (auto form = forms.begin(); fields.good() && form != forms.end(); ++form) {
    bool isForm = form.key().size() == treatmentsOf.size();
    for (size_t i = 0; isForm && i < treatmentsOf.size(); ++i) {
      isForm = treatmentsOf[i].find(form.key()[i]) != std::string::npos;
    }
    fields.require(isForm);
    state.forms[form.key()] = toForm(form.value(), fields);
  }
  return fields.good() ? Result<SearchState>(std::move(state))
                       : refuseState(path, "the search state is damaged");
}

Status SearchState::save(const std::string &path) const {
  Json rows = Json::array(), measured = Json::object();
  for (const std::vector<MeasuredTreatment> &candidate : treatments) {
    Json row = Json::array();
    for (const MeasuredTreatment &treatment : candidate) {
      row.push_back({{"ms", treatment.milliseconds}});
      if (treatment.error) {
        row.back()["error"] = numberOrNull(*treatment.error);
      }
    }
    rows.push_back(std::move(row));
  }
  for (const auto &[letters, form] : forms) {
    measured[letters] = toJson(form);
  }
  Json json = {{"schema", kStateSchema},
               {"key", key},
               {"model_ms", modelMilliseconds},
               {"treatments", rows},
               {"forms", measured}};
  std::string text = dumpJson(json, 1) + "\n";
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TENON_TRY(file.append(std::as_bytes(std::span(text))));
  return file.commit();
}

} // namespace tenon::tool

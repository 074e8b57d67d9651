// Implements the record. What is read was perhaps written by others.

#include "tools/tenon/quant/SearchRecord.h"

#include "tools/tenon/accuracy/Report.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/tenon/quant/SearchText.h"

#include <cmath>

namespace tenon::tool {
namespace {

constexpr int64_t kRecordSchema = 1;

double realAt(const Json &json, const char *key) {
  Json value = fieldAt(json, key);
  return value.is_number() ? value.get<double>() : 0;
}

} // namespace

std::string recordOf(const Searched &searched) {
  Json layers = Json::array();
  for (const SearchedCandidate &own : searched.candidates) {
    const MeasuredTreatment &chosen = own.treatments[own.chosen];
    for (const quant::CandidateLayer &layer : own.candidate.layers) {
      layers.push_back({{"name", layer.name},
                        {"op", layer.op},
                        {"dtype", quant::nameOf(own.candidate.treatments[own.chosen])},
                        {"error", finiteOrNull(std::sqrt(*chosen.error))},
                        {"us", chosen.milliseconds * 1000},
                        {"wide_us", own.treatments.front().milliseconds * 1000},
                        {"together", own.candidate.layers.size()},
                        {"rule", ruleOf(own)}});
    }
  }
  return dumpJson({{"schema", kRecordSchema},
                   {"metric", searched.metric},
                   {"level", searched.level},
                   {"threads", searched.threads},
                   {"samples", searched.errorSamples},
                   {"layers", layers}});
}

Json readSearchRecord(const engine::EngineFile &file) {
  Json record = parseJson(metadataOf(file)[kSearchKey]);
  if (numberAt(record, "schema") != kRecordSchema) {
    return Json();
  }
  Json layers = Json::array();
  for (const Json &row : listAt(record, "layers")) {
    layers.push_back({{"name", textAt(row, "name")},
                      {"op", textAt(row, "op")},
                      {"dtype", textAt(row, "dtype")},
                      {"error", realAt(row, "error")},
                      {"us", realAt(row, "us")},
                      {"wide_us", realAt(row, "wide_us")},
                      {"together", numberAt(row, "together")},
                      {"rule", textAt(row, "rule")}});
  }
  return {{"metric", textAt(record, "metric")},
          {"level", textAt(record, "level")},
          {"threads", numberAt(record, "threads")},
          {"layers", layers}};
}

} // namespace tenon::tool

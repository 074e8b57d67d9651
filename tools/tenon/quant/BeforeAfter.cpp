// Implements the comparison. Memory first: it is measured in processes of their own, which are
// started best without sessions.

#include "tools/tenon/quant/BeforeAfter.h"

#include "tools/tenon/accuracy/Costs.h"
#include "tools/tenon/accuracy/Report.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/view/Page.h"

#include <filesystem>
#include <map>

namespace tenon::tool {
namespace {

constexpr double kSeconds = 2;

} // namespace

Result<Json> measureBeforeAfter(const BeforeAfterRequest &request, TaskListener &listener) {
  TENON_ASSIGN(Form before, Form::compile(request.model, request.options, listener));
  TENON_ASSIGN(Form after, Form::compile(request.output, request.options, listener));
  std::map<std::string, std::string> metadata = metadataOf(before.engine->file());
  ModelHints hints = {metadata["preprocessing"], metadata["classes"]};
  TENON_ASSIGN(Dataset data,
               Dataset::open(request.data, wantedInputs(before.engine->plan()), hints));
  TENON_ASSIGN(MetricSpec spec, chooseMetric(request.metric, data));
  Json rows[2];
  const Form *forms[] = {&before, &after};
  const std::string *paths[] = {&request.model, &request.output};
  for (size_t i = 0; i < 2; ++i) {
    TENON_ASSIGN(uint64_t memory,
                 memoryOfFirstRun(*paths[i], forms[i]->source, data, request.options.session()));
    std::error_code error;
    uintmax_t engine = std::filesystem::file_size(forms[i]->source.path(), error);
    rows[i] = {{"file_bytes", bytesOfModel(*paths[i])},
               {"engine_bytes", error ? 0 : engine},
               {"peak_memory_bytes", memory}};
  }
  TENON_ASSIGN(Evaluator evaluator, Evaluator::open(spec, before, data, request.options));
  TENON_ASSIGN(AccuracyResult result, evaluator.evaluate(after));
  TENON_ASSIGN(std::vector<Latency> latency,
               timeInterleaved(forms, data, kSeconds, request.options, listener));
  rows[0].update(
      {{"value", finiteOrNull(evaluator.baseline())}, {"latency_ms", latency[0].milliseconds}});
  rows[1].update({{"value", finiteOrNull(result.value)}, {"latency_ms", latency[1].milliseconds}});
  return Json{{"metric", spec.name},
              {"unit", spec.isPercent() ? Json("share") : Json()},
              {"data", data.path()},
              {"samples", data.samples()},
              {"level", before.engine->variant().level},
              {"threads", request.options.threads},
              {"before", rows[0]},
              {"after", rows[1]},
              {"drop", finiteOrNull(result.drop)},
              {"drop_interval_95", result.interval ? Json({finiteOrNull(result.interval->low),
                                                           finiteOrNull(result.interval->high)})
                                                   : Json()},
              {"latency_ratio", latency[1].ratio},
              {"latency_ratio_interval_95", {latency[1].low, latency[1].high}}};
}

Status writeReport(const BeforeAfterRequest &request, std::optional<AtomicFile> &page, Json json,
                   TaskListener &listener) {
  if (!page) {
    return Status::ok();
  }
  if (json.contains("output") && !request.data.empty()) {
    TENON_ASSIGN(json["cost"], measureBeforeAfter(request, listener));
  }
  json["model"] = request.model;
  std::string text = view::renderQuantizeReport(std::move(json));
  TENON_TRY(page->append(std::as_bytes(std::span(text))));
  return page->commit();
}

} // namespace tenon::tool

// How well models do on labelled data, how sure that is, and what they cost
// (docs/guides/accuracy.md). All models see the same samples, so that differences are of pairs;
// latency is measured in turn.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"
#include "tools/tenon/bench/Interleaved.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/task/TaskListener.h"

#include <string>
#include <vector>

namespace tenon::tool {

struct AccuracyRequest {
  /// Engines, or models to compile first; one at least. The others are compared with the first.
  std::vector<std::string> models;
  std::string data;                 ///< as Dataset takes it
  std::vector<std::string> metrics; ///< as parseMetric takes them; top1 where there is none
  std::string reference;            ///< of metrics that need one; empty for the first model
  std::string output;               ///< that is scored; empty for the first that fits the metric
  OpenRequest open;                 ///< of every model; its path is not used
  runtime::SessionOptions session;
  size_t batch = 32; ///< samples run at once where a model takes any number
  MeasureBudget budget{1, 0};
};

/// tenon.accuracy/1 without its schema; accuracyText has it for people. Memory is measured in
/// processes of their own: this one must not have begun with a GPU. Errors are those of metrics,
/// data sets, models and engines.
Result<Json> measureAccuracy(const AccuracyRequest &request, TaskListener &listener);

} // namespace tenon::tool

// Relies on both models being measured in turn, so that what disturbs the machine disturbs both.

#include "tools/tenon/prune/Timing.h"

#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/print/FigureSizes.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/view/EngineGraph.h"

#include <utility>

namespace tenon::tool {
namespace {

/// The sum over the regions of an engine, of the variant that runs here at the sizes that are
/// timed.
Result<double> predictedMicroseconds(const runtime::Engine &engine) {
  TENON_ASSIGN(view::InputDims dims, figureDims(engine.file(), {}));
  TENON_ASSIGN(Json record, view::fusionOf(engine.file(), engine.variant().level, dims));
  double sum = 0;
  for (const Json &region : listAt(record, "regions")) {
    sum += region.value("cost", Json::object()).value("us", 0.0);
  }
  return sum;
}

double medianOf(const Subject &subject) { return summarizeLatency(subject.samples()).median; }

} // namespace

Result<Stopwatch::Entry> Stopwatch::load(const std::string &path, TaskListener &listener) const {
  OpenRequest open;
  open.path = path;
  open.shapes = request.shapes;
  open.target = request.target;
  open.useCache = request.useCache;
  open.verifyWeights = false;
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(open, listener));
  Entry entry;
  entry.subject.path = path;
  TENON_ASSIGN(entry.subject.engine, source.open());
  TENON_ASSIGN(entry.predicted, predictedMicroseconds(*entry.subject.engine));
  TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs(InputFlags(), *entry.subject.engine));
  TENON_ASSIGN(Runner runner,
               Runner::create(entry.subject.engine, std::move(inputs), request.session));
  TENON_TRY(runner.run());
  entry.subject.runner = std::make_unique<Runner>(std::move(runner));
  if (entry.subject.isGpu()) {
    TENON_TRY(entry.subject.prepareGpu(false, request.session));
  }
  return entry;
}

Result<Stopwatch> Stopwatch::start(const std::string &model, const TimingRequest &request,
                                   TaskListener &listener) {
  Stopwatch watch;
  watch.request = request;
  watch.model = model;
  TENON_ASSIGN(Entry entry, watch.load(model, listener));
  watch.predictedBefore = entry.predicted;
  watch.first.push_back(std::move(entry.subject));
  return watch;
}

Result<double> Stopwatch::before(TaskListener &listener) {
  MeasureBudget budget;
  budget.seconds = request.seconds;
  first[0].times.clear();
  first[0].gpuTimes.clear();
  TENON_TRY(measureInterleaved(budget, first, listener));
  return medianOf(first[0]);
}

Result<Timing> Stopwatch::measure(const std::string &pruned, TaskListener &listener) {
  TENON_ASSIGN(Entry entry, load(pruned, listener));
  std::vector<Subject> both;
  first[0].times.clear();
  first[0].gpuTimes.clear();
  both.push_back(std::move(first[0]));
  both.push_back(std::move(entry.subject));
  MeasureBudget budget;
  budget.seconds = request.seconds;
  Status status = measureInterleaved(budget, both, listener);
  Timing timing;
  if (status.isOk()) {
    timing.before = medianOf(both[0]);
    timing.after = medianOf(both[1]);
    timing.ratio = compareLatency(both[0].samples(), both[1].samples());
    double saved = predictedBefore > 0 ? entry.predicted / predictedBefore : 1;
    timing.predicted = timing.before * saved;
  }
  first[0] = std::move(both[0]);
  TENON_TRY(std::move(status));
  return timing;
}

} // namespace tenon::tool

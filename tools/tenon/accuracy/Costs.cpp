// Implements the costs over what `bench` has for several engines.

#include "tools/tenon/accuracy/Costs.h"

#include "tools/tenon/accuracy/BatchRunner.h"
#include "tools/tenon/accuracy/Memory.h"
#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/engines/ChildProcess.h"
#include "tools/tenon/model/CompilerBridge.h"

#include <fmt/format.h>

#include <filesystem>

namespace tenon::tool {
namespace {

uint64_t fileBytes(const std::string &path) {
  std::error_code error;
  uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

Result<Subject> subjectOf(CostSubject &subject, const runtime::SessionOptions &options) {
  Subject timed;
  timed.path = subject.path;
  timed.engine = subject.engine;
  TENON_ASSIGN(Runner runner, Runner::create(subject.engine, std::move(subject.inputs), options));
  TENON_TRY(runner.run());
  timed.runner = std::make_unique<Runner>(std::move(runner));
  if (timed.isGpu()) {
    TENON_TRY(timed.prepareGpu(false, options));
    runtime::MemoryUse use = timed.runner->session().memoryUse();
    subject.peakMemory =
        use.weightBytes + use.arenaBytes + use.stateBytes + use.workspaceBytes + use.portBytes;
  }
  return timed;
}

Json describe(const CostSubject &subject, const Subject &timed) {
  LatencySummary latency = summarizeLatency(timed.samples());
  bool isEngine = subject.enginePath == subject.path;
  return {{"model", subject.path},
          {"isa", subject.engine->variant().level},
          {"threads", timed.runner->session().threads()},
          {"latency_ms",
           {{"min", latency.min},
            {"median", latency.median},
            {"p90", latency.p90},
            {"p99", latency.p99}}},
          {"file_bytes", isEngine ? fileBytes(subject.path) : bytesOfModel(subject.path)},
          {"engine_bytes", fileBytes(subject.enginePath)},
          {"peak_memory_bytes", subject.peakMemory}};
}

} // namespace

Result<uint64_t> memoryOfFirstRun(const std::string &path, const EngineSource &source,
                                  const Dataset &data, const runtime::SessionOptions &options) {
  auto runOnce = [&]() -> Status {
    TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, source.open());
    TENON_ASSIGN(BatchRunner runner, BatchRunner::create(std::move(engine), data, 1, options));
    return runner.outputsOf(0, 1).takeStatus();
  };
  auto work = [&]() -> Json {
    Status status;
    uint64_t bytes = peakMemoryOf([&] { status = runOnce(); });
    return status.isOk() ? Json{{"bytes", bytes}} : describeError(status);
  };
  Status silence = Status::error(ErrorId::InternalError,
                                 fmt::format("{}: the first run ended without a result", path),
                                 "run tenon run on it to see where, and report it");
  TENON_ASSIGN(Json answer, inChild(work, silence));
  return answer.value("bytes", uint64_t(0));
}

Result<std::vector<Json>> measureCosts(std::vector<CostSubject> subjects,
                                       const runtime::SessionOptions &options,
                                       const MeasureBudget &budget, TaskListener &listener) {
  std::vector<Subject> allTimed;
  for (CostSubject &subject : subjects) {
    TENON_ASSIGN(Subject timed, subjectOf(subject, options));
    allTimed.push_back(std::move(timed));
  }
  TENON_TRY(measureInterleaved(budget, allTimed, listener));
  listener.clearProgress();
  std::vector<Json> costs;
  for (size_t i = 0; i < subjects.size(); ++i) {
    Json row = describe(subjects[i], allTimed[i]);
    if (i > 0) {
      RatioSummary ratio = compareLatency(allTimed[0].samples(), allTimed[i].samples());
      row["latency_ratio"] = {{"of_medians", ratio.ofMedians},
                              {"interval_95", {ratio.low, ratio.high}},
                              {"differs", ratio.differs()}};
    }
    costs.push_back(std::move(row));
  }
  return costs;
}

} // namespace tenon::tool

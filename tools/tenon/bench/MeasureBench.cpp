// Relies on Subject for what a sample is.

#include "tools/tenon/bench/MeasureBench.h"

#include "support/files/MappedFile.h"
#include "tools/tenon/bench/Statistics.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace tenon::tool {
namespace {

/// Reads the file once so that `load` measures loading, not the disk.
Status readThrough(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  constexpr uint64_t kPiece = uint64_t(1) << 20;
  std::vector<std::byte> piece(kPiece);
  for (uint64_t offset = 0; offset < file.size(); offset += kPiece) {
    uint64_t size = std::min(kPiece, file.size() - offset);
    TENON_TRY(file.read(offset, MutableBytes(piece).first(size)));
  }
  return Status::ok();
}

Result<Subject> load(const BenchRequest &request, const std::string &path, TaskListener &listener) {
  OpenRequest opened = request.open;
  opened.path = path;
  opened.shapes = request.inputs.shapes;
  Subject subject;
  subject.path = path;
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(opened, listener));
  subject.compileSeconds = source.compileSeconds();
  TENON_TRY(readThrough(source.path()));

  BenchClock::time_point start = BenchClock::now();
  TENON_ASSIGN(subject.engine, source.open());
  double openMs = millisecondsSince(start);
  TENON_ASSIGN(double contextMs, contextMilliseconds(*subject.engine));
  // The other subject may have started the GPU.
  subject.contextMs = contextMs < openMs ? contextMs : 0;
  subject.engineMs = openMs - subject.contextMs;
  TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs(request.inputs, *subject.engine));
  start = BenchClock::now();
  TENON_ASSIGN(Runner runner, Runner::create(subject.engine, std::move(inputs), request.session));
  subject.loadMs = subject.engineMs + millisecondsSince(start);
  TENON_TRY(runner.run());
  subject.firstResultMs = openMs + millisecondsSince(start);
  subject.runner = std::make_unique<Runner>(std::move(runner));
  if (subject.isGpu()) {
    TENON_TRY(subject.prepareGpu(request.isCold, request.session));
  } else if (request.isCold || request.details.probes) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("{} runs on {}, but --cold and --probes need a GPU", path,
                                     subject.engine->variant().level),
                         "compile with --target and a GPU architecture");
  }
  return subject;
}

/// The second engine beside the first.
Json describeSecond(const std::vector<Subject> &subjects, Json other, const BenchDetails &details) {
  bool isGpu = subjects[0].isGpu() && subjects[1].isGpu();
  RatioSummary ratio = isGpu ? compareLatency(subjects[0].gpuTimes, subjects[1].gpuTimes)
                             : compareLatency(subjects[0].times, subjects[1].times);
  Json second = {{"other", std::move(other)},
                 {"ratio_of_minima", ratio.ofMinima},
                 {"ratio_of_medians", ratio.ofMedians},
                 {"interval_95", {ratio.low, ratio.high}},
                 {"differs", ratio.differs()}};
  if (details.intervals) {
    second["ratios"] = describeRatios(subjects[0], subjects[1]);
  }
  return second;
}

} // namespace

Result<Json> measureBench(const BenchRequest &request, TaskListener &listener) {
  std::vector<Subject> subjects;
  TENON_ASSIGN(Subject first, load(request, request.open.path, listener));
  subjects.push_back(std::move(first));
  if (!request.other.empty()) {
    TENON_ASSIGN(Subject second, load(request, request.other, listener));
    subjects.push_back(std::move(second));
  }
  TENON_TRY(measureInterleaved(request.budget, subjects, listener));
  TENON_ASSIGN(Json result, subjects[0].describe(request.details));
  if (subjects.size() > 1) {
    TENON_ASSIGN(Json other, subjects[1].describe(request.details));
    result["ab"] = describeSecond(subjects, std::move(other), request.details);
  }
  return result;
}

} // namespace tenon::tool

// Limits are measured before and after, as a neighbour may disturb either time. Counters are read
// first, while the GPU holds nothing of this process.

#include "tools/tenon/profile/MeasureProfile.h"

#include "engine/Expr.h"
#include "runtime/tensors/Seeded.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/print/FigureSizes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace tenon::tool {
namespace {

/// Of an engine, the model beside it, by whose name compile calls engines.
std::string modelBeside(const std::string &engine) {
  for (const char *ending : {".onnx", ".pt2"}) {
    std::filesystem::path model = std::filesystem::path(engine).replace_extension(ending);
    std::error_code error;
    if (std::filesystem::is_regular_file(model, error)) {
      return model.string();
    }
  }
  return "MODEL";
}

void describeInputs(const ProfileRequest &request, const Runner &runner, Profile &profile) {
  for (const Tensor &input : runner.inputs()) {
    profile.inputs.emplace_back(input.name, input.dims);
  }
  profile.areSizesLikely =
      request.inputs.shapes.empty() && request.inputs.files.empty() && request.inputs.batch == 0;
}

/// What advice would run at once: the other dims stay, and follow the batch where the model says
/// so.
void chooseBatch(const engine::Plan &plan, std::span<const int64_t> session, Profile &profile) {
  // Of several samples on a GPU, twice as many.
  int64_t now = profile.inputs.empty() || profile.inputs.front().second.empty()
                    ? 1
                    : profile.inputs.front().second.front();
  const int64_t wanted = profile.isGpu && now > 1 ? 2 * now : 8;
  std::vector<int64_t> sizes(plan.symbols.size(), 0);
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    const engine::Symbol &symbol = plan.symbols[i];
    if (symbol.isOfSession || symbol.isDataDependent()) {
      sizes[i] = symbol.isOfSession ? session[i] : 0;
      continue;
    }
    bool isBatch = symbol.input == 0 && symbol.dim == 0;
    sizes[i] =
        isBatch ? std::min(wanted, symbol.max) : profile.inputs[symbol.input].second[symbol.dim];
    profile.batch = isBatch ? sizes[i] : profile.batch;
  }
  for (uint32_t input = 0; profile.batch > 1 && input < plan.inputs.size(); ++input) {
    const engine::Port &port = plan.inputs[input];
    std::vector<int64_t> dims = profile.inputs[input].second;
    for (uint32_t dim = 0; dim < dims.size(); ++dim) {
      std::optional<uint32_t> symbol = symbolAt(plan, input, dim);
      dims[dim] =
          symbol ? sizes[*symbol]
                 : engine::evaluate(plan.exprs.program(port.dims[dim]), sizes).value_or(dims[dim]);
    }
    profile.batchInputs.emplace_back(port.name, std::move(dims));
  }
}

/// No counting takes as long; one that hangs ends.
constexpr unsigned kLongestCounting = 120;

MakeRunner runnersOf(const ProfileRequest &request, std::shared_ptr<const runtime::Engine> engine) {
  return [&request, engine](unsigned threads) -> Result<Runner> {
    runtime::SessionOptions session = request.session;
    session.threads = threads;
    TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs(request.inputs, *engine));
    return Runner::create(engine, std::move(inputs), session);
  };
}

Result<Json> countEngine(const ProfileRequest &request, const std::string &path) {
  OpenRequest open = request.open;
  open.path = path;
  open.verifyWeights = false; // the profile does it
  TaskListener silent;
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(open, silent));
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, source.open());
  if (!engine->gpu()) {
    return Status::error(ErrorId::BadArgument, "counters are read on GPUs alone");
  }
  TENON_ASSIGN(Runner runner, runnersOf(request, engine)(request.session.threads));
  TENON_TRY(runner.run());
  alarm(kLongestCounting);
  TENON_ASSIGN(std::vector<StepCounters> counted, countSteps(runner));
  return toJson(counted);
}

} // namespace

Result<Child> startCounting(const ProfileRequest &request) {
  return Child::start([&request](const std::string &path) {
    Result<Json> counted = countEngine(request, path);
    return counted ? std::move(*counted) : describeError(counted.status());
  });
}

Result<Profiled> measureProfile(const ProfileRequest &request, const std::string &path,
                                TaskListener &listener, Child *counting) {
  OpenRequest open = request.open;
  open.path = path;
  open.shapes = request.inputs.shapes;
  TENON_ASSIGN(bool isOfModel, isModel(open.path, Takes::Either));
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(open, listener));
  std::optional<Result<Json>> counted;
  if (counting) {
    listener.progress("counters", 0);
    counted = counting->ask(source.path(),
                            Status::error(ErrorId::LibraryFailed, "the process that counts ended"));
  }
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, source.open());
  MakeRunner make = runnersOf(request, engine);
  TENON_ASSIGN(Runner runner, make(request.session.threads));

  Profile profile;
  profile.path = open.path;
  profile.model = isOfModel ? open.path : modelBeside(open.path);
  profile.engine = open.path;
  profile.level = engine->variant().level;
  profile.features = engine->variant().features;
  profile.isGpu = engine->gpu().has_value();
  profile.options = parseJson(engine->file().provenance().options);
  if (!profile.options.is_object()) {
    profile.options = Json::object();
  }
  describeInputs(request, runner, profile);
  TENON_ASSIGN(std::vector<int64_t> session,
               runtime::sessionValues(runner.plan(), request.session.symbols));
  chooseBatch(runner.plan(), session, profile);
  listener.progress("limits", 0);
  TENON_ASSIGN(profile.limits, profile.isGpu ? measureGpuLimits(*engine->gpu())
                                             : measureCpuLimits(runner.session().threads()));
  TENON_ASSIGN(profile.measured, measureSteps(runner, make, request.seconds, listener));
  if (!profile.isGpu) {
    // Again, as a neighbour may have disturbed the first time.
    TENON_ASSIGN(Limits again, measureCpuLimits(runner.session().threads()));
    profile.limits.take(again);
  }
  if (counted && *counted) {
    profile.counters = countersOf(**counted);
  } else if (counted) {
    profile.measured.notes.push_back(
        fmt::format("without counters, by the model alone: {}", counted->status().message()));
  }
  TENON_TRY(joinRecords(engine->file(), runner.session().activePlan(), profile));
  classify(profile);
  splitOperators(profile);
  advise(profile);
  listener.clearProgress();
  return Profiled{std::move(profile), std::move(source),
                  std::make_unique<Runner>(std::move(runner))};
}

} // namespace tenon::tool

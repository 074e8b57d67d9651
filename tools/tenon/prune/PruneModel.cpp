// The parts that a latency search tries are made, checked and timed like the one that is kept.

#include "tools/tenon/prune/PruneModel.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/tensors/Npy.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/files/OutputPath.h"
#include "support/files/ScratchFolder.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/model/DataFile.h"
#include "tools/tenon/prune/SampledSizes.h"
#include "tools/tenon/target/Target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

namespace tenon::tool {
namespace {

/// The search for a latency: how near it goes, how much it prunes at most, how often it compiles.
constexpr double kNearTarget = 0.95, kMaxRatio = 0.9;
constexpr int kMaxTries = 8;

/// The scores of an npz, all as FP32.
Result<std::vector<prune::ScoreTensor>> readScores(const std::string &path) {
  AcceptArray accept = [&](const std::string &name, const NpyHeader &header) {
    return header.dtype == DType::F32
               ? Status::ok()
               : Status::error(ErrorId::BadImportance,
                               fmt::format("{}: the scores of '{}' are not float32", path, name),
                               "tenon.prune.taylor(module, data) creates such files");
  };
  TENON_ASSIGN(std::vector<Tensor> arrays, readNpz(path, accept));
  std::vector<prune::ScoreTensor> scores;
  for (const Tensor &array : arrays) {
    prune::ScoreTensor own{array.name, array.dims,
                           std::vector<float>(static_cast<size_t>(array.elements()))};
    std::memcpy(own.values.data(), array.data.data(), own.values.size() * sizeof(float));
    scores.push_back(std::move(own));
  }
  return scores;
}

Status refusePruning(std::string what, std::string next) {
  return Status::error(ErrorId::BadArgument, std::move(what), std::move(next));
}

Status checkRequest(const PruneRequest &request) {
  if (request.ratio.has_value() == request.latency.has_value()) {
    return refusePruning("either --ratio or --latency must say how narrow the model becomes",
                         "tenon prune model.onnx --ratio 30% -o narrow.onnx");
  }
  if (request.ratio && (*request.ratio <= 0 || *request.ratio >= 1)) {
    return Status::error(ErrorId::BadPruneRatio,
                         fmt::format("a ratio of {:g} % {}", *request.ratio * 100,
                                     *request.ratio <= 0 ? "removes nothing" : "leaves no channel"),
                         "give the share of channels to remove: --ratio 30%");
  }
  if (request.latency && !request.isTimed) {
    return refusePruning("--latency needs measurements, but --no-timing forbids them",
                         "leave one of them out");
  }
  if (request.scores.empty() != (request.importance != "scores")) {
    return refusePruning("--importance scores and --scores belong together",
                         "give both, or neither");
  }
  if (request.model.ends_with(".pt2")) {
    return Status::error(
        ErrorId::PruneFormat, fmt::format("'{}' is a program from torch.export", request.model),
        "export the module as ONNX, prune that with --recipe r.json, apply the recipe with "
        "tenon.prune.apply(module, recipe), and export the module again");
  }
  return Status::ok();
}

/// What a kernel of the target computes at once: the cost of a convolution or product steps where
/// its width passes a multiple of it. Of several levels the widest decides, of all those of `cpu`
/// this machine's.
Result<uint32_t> multipleOf(const PruneRequest &request) {
  constexpr int64_t kGpu = 8; ///< what a tensor core takes
  if (request.multiple != 0) {
    return static_cast<uint32_t>(request.multiple);
  }
  TENON_ASSIGN(Targets targets, parseTargets(request.target.targets));
  std::optional<engine::CpuLevel> local = runtime::bestCpuLevel();
  if (targets.addsLevels && local) {
    targets.levels = {*local};
  }
  int64_t multiple = kGpu;
  for (engine::CpuLevel level : targets.levels) {
    multiple = std::max(multiple, engine::floatLanes(level));
  }
  return static_cast<uint32_t>(multiple);
}

std::vector<std::string> textsOf(const std::vector<ShapeArgument> &shapes) {
  std::vector<std::string> texts;
  for (const ShapeArgument &shape : shapes) {
    std::vector<int64_t> sizes;
    for (const ShapeArgument::Dim &dim : shape.dims) {
      sizes.push_back(dim.min);
    }
    texts.push_back(fmt::format("{}:{}", shape.input, fmt::join(sizes, "x")));
  }
  return texts;
}

class PruneWork {
public:
  PruneWork(const PruneRequest &request, prune::Pruner &pruner, SampledShapes shapes,
            ScratchFolder &folder, TaskListener &listener)
      : request(request), pruner(pruner), shapes(std::move(shapes)),
        path(folder.path() + "/pruned.onnx"), listener(listener) {}

  Status byRatio(double share);
  Status byLatency(double target);

  double ratio = 0;
  std::string bytes;
  std::optional<DataFile> data; ///< beside them
  std::optional<Timing> timing;

private:
  Status make(double share);
  Status check();
  Status startTiming();

  const PruneRequest &request;
  prune::Pruner &pruner;
  SampledShapes shapes;
  std::string path;
  TaskListener &listener;
  std::optional<Stopwatch> watch;
};

/// Every value has the dims that were planned, at all sampled sizes of free dims: what a rule and
/// the edit of a node disagree on shows here.
Status PruneWork::check() {
  auto failed = [](std::string what) {
    return Status::error(ErrorId::PruneCheckFailed, std::move(what),
                         "report this with the model; --keep leaves a layer unchanged");
  };
  prune::SampledDims planned = pruner.dimsAfter();
  for (size_t sample = 0; sample < shapes.size(); ++sample) {
    Result<prune::ValueDims> dims = dimsOfValues(path, shapes[sample]);
    if (!dims) {
      return failed(fmt::format("the pruned model cannot be read: {}", dims.status().message()));
    }
    for (const auto &[name, own] : planned[sample]) {
      auto found = dims->find(name);
      if (found != dims->end() && found->second != own) {
        return failed(fmt::format("'{}' has dims {} in the pruned model, but {} were planned", name,
                                  found->second, own));
      }
    }
  }
  return Status::ok();
}

Status PruneWork::make(double share) {
  TENON_TRY(pruner.choose(share));
  TENON_ASSIGN(std::string place, resolveOutput(request.output));
  data.emplace(path, dataNameOf(place), std::vector<std::string>());
  TENON_ASSIGN(bytes, pruner.write(&*data));
  TENON_TRY(data->commit());
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TENON_TRY(file.append(std::as_bytes(std::span(bytes))));
  TENON_TRY(file.commit());
  ratio = share;
  return check();
}

Status PruneWork::startTiming() {
  TimingRequest timingRequest{textsOf(shapes.front()), request.target, request.session,
                              request.useCache, request.seconds};
  TENON_ASSIGN(Stopwatch started, Stopwatch::start(request.model, timingRequest, listener));
  watch.emplace(std::move(started));
  return Status::ok();
}

Status PruneWork::byRatio(double share) {
  TENON_TRY(make(share));
  if (request.isTimed) {
    TENON_TRY(startTiming());
    TENON_ASSIGN(timing, watch->measure(path, listener));
  }
  return Status::ok();
}

/// The least ratio whose time is within the target: halves the interval, and begins where the
/// square of what is kept, which the operations go with, says.
Status PruneWork::byLatency(double target) {
  TENON_TRY(startTiming());
  TENON_ASSIGN(double before, watch->before(listener));
  if (before <= target) {
    return refusePruning(
        fmt::format("the model already takes {:.3g} ms, which is within {:.3g} ms", before, target),
        "give a shorter --latency, or a --ratio");
  }
  double low = 0, high = kMaxRatio, next = std::min(1 - std::sqrt(target / before), kMaxRatio);
  double least = before, leastRatio = 0;
  std::map<double, double, std::greater<>> within; ///< ratios by their times, the slowest first
  for (int i = 0; i < kMaxTries && high - low > 0.01; ++i) {
    Status made = make(next);
    double time = before;
    if (made.isOk()) {
      TENON_ASSIGN(timing, watch->measure(path, listener));
      time = timing->after;
    } else if (made.id() != ErrorId::BadPruneRatio) {
      return made;
    }
    bool isTooMuch = !made.isOk() && next > 0.5;
    if (made.isOk() && time < least) {
      least = time;
      leastRatio = next;
    }
    if (!isTooMuch && time > target) {
      low = next;
    } else {
      high = next;
      if (!isTooMuch) {
        within.emplace(time, next);
      }
      if (!isTooMuch && time >= kNearTarget * target) {
        break;
      }
    }
    next = (low + high) / 2;
  }
  // A form that is made again is measured again, and may take longer than it did.
  for (const auto &[time, share] : within) {
    if (ratio != share) {
      TENON_TRY(make(share));
      TENON_ASSIGN(timing, watch->measure(path, listener));
    }
    least = timing->after;
    leastRatio = share;
    if (least <= target) {
      return Status::ok();
    }
  }
  return Status::error(ErrorId::PruneTargetMissed,
                       fmt::format("{:.3g} ms is out of reach: the model takes {:.3g} ms, and "
                                   "{:.3g} ms with {:.0f} % of its channels removed",
                                   target, before, least, leastRatio * 100),
                       "allow more time, or quantize the pruned model: tenon quantize");
}

/// Files that are read besides the model are added to `reads`.
Result<prune::Settings> settingsOf(const PruneRequest &request, std::vector<std::string> &reads) {
  prune::Settings settings;
  TENON_ASSIGN(settings.multiple, multipleOf(request));
  settings.keep = request.keep;
  settings.importance = request.importance == "scores"     ? prune::Importance::Scores
                        : request.importance == "bn-scale" ? prune::Importance::NormScale
                                                           : prune::Importance::Magnitude;
  if (!request.scores.empty()) {
    reads.push_back(request.scores);
    TENON_ASSIGN(settings.scores, readScores(request.scores));
  }
  return settings;
}

/// The outputs are none of what is read, and not each other.
Status checkPlaces(const PruneRequest &request, const std::vector<std::string> &reads) {
  TENON_TRY(checkOutput(request.output, request.model, reads));
  TENON_TRY(checkOutput(request.recipe, request.model, reads));
  if (!request.recipe.empty()) {
    TENON_ASSIGN(std::string output, resolveOutput(request.output, reads));
    TENON_ASSIGN(std::string recipe, resolveOutput(request.recipe, reads));
    auto placeOf = [](const std::string &path) {
      std::error_code ignored; // what cannot be looked up is refused where it is made
      return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
    };
    if (placeOf(output) == placeOf(recipe)) {
      return refusePruning(
          fmt::format("the model and its recipe would both be '{}'", request.recipe),
          "name another file with --recipe");
    }
  }
  return Status::ok();
}

/// From the folder where the model was made to that of the output.
Status copyData(const DataFile &made, const PruneRequest &request, std::vector<std::string> reads) {
  TENON_ASSIGN(std::string place, resolveOutput(request.output));
  for (std::string &file : dataFilesOf(request.model)) {
    reads.push_back(std::move(file));
  }
  DataFile data(place, made.location(), std::move(reads));
  TENON_ASSIGN(MappedFile bytes, MappedFile::open(made.path()));
  TENON_TRY(data.append(bytes.bytes()));
  return data.commit();
}

} // namespace

Result<PruneOutcome> pruneModel(const PruneRequest &request, TaskListener &listener) {
  TENON_TRY(checkRequest(request));
  TENON_TRY(isModel(request.model, Takes::Model).takeStatus());
  std::vector<std::string> reads = {request.model};
  TENON_ASSIGN(prune::Settings settings, settingsOf(request, reads));
  TENON_TRY(checkPlaces(request, reads));
  TENON_ASSIGN(prune::Pruner pruner, prune::Pruner::open(request.model));
  TENON_ASSIGN(std::vector<ShapeArgument> given, parseShapeArguments(request.shapes));
  prune::SampledDims dims;
  TENON_ASSIGN(SampledShapes shapes, sampleShapes(request.model, given, pruner, dims));
  TENON_TRY(pruner.analyze(std::move(dims), std::move(settings)));
  if (request.ratio) {
    TENON_TRY(pruner.choose(*request.ratio));
  }
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(request.output, reads));
  std::optional<AtomicFile> recipe;
  if (!request.recipe.empty()) {
    TENON_ASSIGN(recipe, AtomicFile::create(request.recipe, reads));
  }
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-prune"));
  PruneWork work(request, pruner, std::move(shapes), folder, listener);
  TENON_TRY(request.ratio ? work.byRatio(*request.ratio) : work.byLatency(*request.latency));
  PruneOutcome outcome{pruner.info(),
                       request.model,
                       request.output,
                       request.importance,
                       work.ratio,
                       bytesOfModel(request.model),
                       work.bytes.size() + work.data->size(),
                       work.timing};
  if (!request.recipe.empty()) {
    std::string text = dumpJson(recipeOf(outcome), 1) + "\n";
    TENON_TRY(recipe->append(std::as_bytes(std::span(text))));
  }
  if (work.data->isUsed()) {
    TENON_TRY(copyData(*work.data, request, reads));
    listener.note(noteOfData(*work.data));
  }
  TENON_TRY(file.append(std::as_bytes(std::span(work.bytes))));
  TENON_TRY(file.commit());
  if (recipe) {
    TENON_TRY(recipe->commit());
  }
  return outcome;
}

} // namespace tenon::tool

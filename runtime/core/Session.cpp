// Chooses the plan for the dims of a run, and has it run: by each rank, where there are several.
//
// One file: what a session does with its ranks, for each of its functions.

#include "runtime/core/Session.h"

#include "runtime/core/PlanRunner.h"
#include "runtime/core/RankTeam.h"
#include "runtime/core/RowParts.h"
#include "runtime/device/cuda/CudaGroup.h"
#include "support/Shape.h"
#include "support/text/Text.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace tenon::runtime {

using engine::Plan;
using engine::Port;

namespace {

Status countError(const char *kind, size_t given, size_t expected) {
  return Status::error(ErrorId::RunInputCount,
                       strCat(given, " ", kind, " were given, but the engine has ", expected),
                       "pass one tensor for each, in the engine's order");
}

/// Of a plan whose inputs have no symbols of their own.
FlatDims fixedDims(const Plan &plan, std::span<const int64_t> session) {
  FlatDims dims;
  for (const Port &port : plan.inputs) {
    for (engine::ExprId dim : port.dims) {
      dims.push_back(engine::evaluate(plan.exprs.program(dim), session).value_or(-1));
    }
  }
  return dims;
}

/// What one rank runs.
class RankRunners {
public:
  RankRunners(const Engine &runEngine, const SessionOptions &sessionOptions, RankPlace rankPlace)
      : engine(runEngine), options(sessionOptions), place(rankPlace), runners(engine.plans()) {}

  Status init() {
    TENON_ASSIGN(runners[0], PlanRunner::create(engine, 0, options, nullptr, place));
    std::span<const int64_t> values = runners[0]->sessionValues();
    const Plan &plan = engine.plan();
    return plan.knownSymbols() == values.size() ? prepare(fixedDims(plan, values)) : Status::ok();
  }

  /// Binds a plan that knows these dims, else the general one.
  Status prepare(const FlatDims &dims) {
    if (chosen && chosen->current() && chosen->current()->inputDims == dims) {
      return chosen->bind(dims);
    }
    PlanRunner *before = std::exchange(chosen, nullptr);
    Status status;
    for (size_t i = 1; i < runners.size() && !chosen && status; ++i) {
      status = prepareBy(i, dims);
    }
    if (!chosen && status) {
      status = runners[0]->bind(dims);
      chosen = runners[0].get();
    }
    if (!status) {
      chosen = before; // a failed prepare leaves the last good one
    }
    return status;
  }

  /// That of the dims prepared last; null before.
  PlanRunner *active() const { return chosen; }
  BoundPlan *current() const { return chosen ? chosen->current() : nullptr; }
  /// Of the dims prepared last, or the general one.
  Executor &executor() const { return chosen ? chosen->executor() : runners[0]->executor(); }

  void addMemory(MemoryUse &use) const {
    for (const std::unique_ptr<PlanRunner> &runner : runners) {
      if (runner) {
        use += runner->executor().memoryUse();
      }
    }
  }
  void setTiming(bool isOn) {
    isTimed = isOn;
    for (const std::unique_ptr<PlanRunner> &runner : runners) {
      if (runner) {
        runner->executor().setTiming(isOn);
      }
    }
  }

private:
  /// Chooses the plan that knows some sizes if these are its, and all it relies on holds.
  Status prepareBy(size_t choice, const FlatDims &dims) {
    std::unique_ptr<PlanRunner> &runner = runners[choice];
    if (!PlanRunner::takes(engine.plan(choice), dims)) {
      return Status::ok();
    }
    if (!runner) {
      TENON_ASSIGN(runner, PlanRunner::create(engine, choice, options, runners[0].get(), place));
      runner->executor().setTiming(isTimed);
    }
    if (runner->bind(dims).isOk()) {
      chosen = runner.get();
    }
    return Status::ok();
  }

  const Engine &engine;
  const SessionOptions &options;
  RankPlace place;
  /// By Engine's plans: the general one, then those that know some sizes, made when first needed.
  std::vector<std::unique_ptr<PlanRunner>> runners;
  PlanRunner *chosen = nullptr;
  bool isTimed = false;
};

} // namespace

struct Session::Impl {
  std::shared_ptr<const Engine> engine;
  SessionOptions options;
  std::unique_ptr<RankTeam> team; ///< null for one rank
  std::vector<std::unique_ptr<RankRunners>> ranks;
  /// What ranks but the first of a stage do with the outputs: keep them.
  std::vector<OutputBinding> kept;
  FlatDims wanted; ///< dims asked for, kept to allocate nothing in a run
  RowParts rows;

  Impl(std::shared_ptr<const Engine> sharedEngine, const SessionOptions &sessionOptions)
      : engine(std::move(sharedEngine)), options(sessionOptions) {}
  ~Impl() {
    // By the threads that made them.
    if (team && !ranks.empty()) {
      static_cast<void>(forEachRank([&](uint32_t rank) {
        ranks[rank].reset();
        return Status::ok();
      }));
    }
  }

  const Plan &plan() const { return engine->plan(); }
  /// The first rank's, which answers for all.
  RankRunners &first() const { return *ranks[0]; }

  /// For what ranks do on GPUs together; nothing for others.
  std::unique_lock<std::mutex> lockGroup() const {
    return team && engine->gpu() ? std::unique_lock(cuda::runsOfGroups())
                                 : std::unique_lock<std::mutex>();
  }

  template <typename Work> Status forEachRank(const Work &work, bool isRun = false) {
    return team ? team->forEach(work, isRun) : work(0);
  }

  Status init() {
    uint32_t count = plan().ranks;
    if (count > 1) {
      TENON_ASSIGN(team, RankTeam::create(count, plan().stages, engine->rankWatch()));
      Place place = engine->gpu() ? Place::Gpu : Place::Host;
      kept.assign(plan().outputs.size(), {nullptr, 0, place});
    }
    ranks.resize(count);
    return forEachRank([&](uint32_t rank) {
      RankPlace place = team ? team->place(rank) : RankPlace();
      ranks[rank] = std::make_unique<RankRunners>(*engine, options, place);
      return ranks[rank]->init();
    });
  }

  /// Puts the dims of one input behind those in `wanted`, after checking their number.
  Status addDims(size_t input, std::span<const int64_t> dims) {
    const Port &port = plan().inputs[input];
    if (dims.size() != port.dims.size()) {
      return Status::error(ErrorId::RunInputRank,
                           strCat("input '", port.name, "' has dims ", formatDims(dims),
                                  " of rank ", dims.size(), ", but the engine expects rank ",
                                  port.dims.size()),
                           "pass the tensor with this rank");
    }
    wanted.insert(wanted.end(), dims.begin(), dims.end());
    return Status::ok();
  }

  Status prepare() {
    const BoundPlan *current = first().current();
    if (current && current->inputDims == wanted) {
      for (const std::unique_ptr<RankRunners> &rank : ranks) {
        TENON_TRY(rank->prepare(wanted)); // takes no thread of the rank
      }
      return Status::ok();
    }
    return forEachRank([&](uint32_t rank) { return ranks[rank]->prepare(wanted); });
  }

  /// What the first rank of each stage measures, while the others do the same.
  template <typename Time, typename Measure>
  Result<std::vector<Time>> timeAll(const Measure &measure) {
    std::vector<Time> times(plan().stages);
    std::unique_lock<std::mutex> lock = lockGroup();
    TENON_TRY(forEachRank([&](uint32_t rank) -> Status {
      TENON_ASSIGN(Time own, measure(*ranks[rank]));
      if (isFirstOfStage(rank)) {
        times[plan().stageOf(rank)] = std::move(own);
      }
      return Status::ok();
    }));
    return times;
  }

  bool isFirstOfStage(uint32_t rank) const { return rank % plan().ranksOfStage() == 0; }

  /// The rank that makes an output for the caller.
  RankRunners &makerOf(size_t output) const {
    const PlanRunner *active = first().active();
    const Plan &own = active ? active->plan() : plan();
    uint32_t stage = output < own.outputs.size() ? engine::stageOfOutput(own, output) : 0;
    return *ranks[stage * own.ranksOfStage()];
  }

  /// Prepared by all before one begins: what the caller did wrong is said once.
  Status prepare(const RunTensors &run) {
    if (run.inputs.size() != plan().inputs.size()) {
      return countError("inputs", run.inputs.size(), plan().inputs.size());
    }
    if (run.outputs.size() != plan().outputs.size()) {
      return countError("outputs", run.outputs.size(), plan().outputs.size());
    }
    wanted.clear();
    for (size_t i = 0; i < run.inputs.size(); ++i) {
      TENON_TRY(addDims(i, run.inputs[i].dims));
    }
    return prepare();
  }

  Status run(const RunTensors &run, const RunOptions &runOptions) {
    if (team && runOptions.stream) {
      return Status::error(ErrorId::BadArgument, "a stream was given for a run on several ranks",
                           "pass none");
    }
    TENON_TRY(prepare(run));
    const PlanRunner &active = *first().active();
    if (plan().stages > 1 && rows.cut(active.plan(), run, active.current()->outputBytes)) {
      if (prepareInOrder(rows.runs()).isOk()) {
        return runPrepared(rows.runs(), run);
      }
      TENON_TRY(prepare(run));
    }
    std::unique_lock<std::mutex> lock = lockGroup();
    return forEachRank([&](uint32_t rank) { return runOf(rank, run, runOptions); },
                       /*isRun=*/true);
  }

  Status runInOrder(std::span<const RunTensors> runs) {
    TENON_TRY(prepareInOrder(runs));
    return runs.empty() ? Status::ok() : runPrepared(runs, runs.back());
  }

private:
  Status prepareInOrder(std::span<const RunTensors> runs) {
    for (const RunTensors &run : runs) {
      TENON_TRY(prepare(run));
    }
    return Status::ok();
  }

  /// What the session then says of outputs is that of `last`.
  Status runPrepared(std::span<const RunTensors> runs, const RunTensors &last) {
    {
      std::unique_lock<std::mutex> lock = lockGroup();
      TENON_TRY(forEachRank(
          [&](uint32_t rank) {
            FlatDims dims;
            for (const RunTensors &run : runs) {
              dims.clear();
              for (const InputBinding &input : run.inputs) {
                dims.insert(dims.end(), input.dims.begin(), input.dims.end());
              }
              TENON_TRY(ranks[rank]->prepare(dims));
              TENON_TRY(runOf(rank, run, {}));
            }
            return Status::ok();
          },
          /*isRun=*/true));
    }
    return prepare(last);
  }

  Status runOf(uint32_t rank, const RunTensors &run, const RunOptions &runOptions) {
    std::span<const OutputBinding> outputs = isFirstOfStage(rank) ? run.outputs : kept;
    return ranks[rank]->active()->run(run.inputs, outputs, runOptions);
  }
};

Session::Session(std::unique_ptr<Impl> implementation) : impl(std::move(implementation)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Engine> engine,
                                                 const SessionOptions &options) {
  std::unique_ptr<Impl> impl(new Impl(std::move(engine), options));
  TENON_TRY(impl->init());
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

const Engine &Session::engine() const { return *impl->engine; }

unsigned Session::threads() const {
  return impl->first().executor().threads() * static_cast<unsigned>(impl->ranks.size());
}

Status Session::prepare(std::span<const std::span<const int64_t>> inputDims) {
  if (inputDims.size() != impl->plan().inputs.size()) {
    return countError("inputs", inputDims.size(), impl->plan().inputs.size());
  }
  impl->wanted.clear();
  for (size_t i = 0; i < inputDims.size(); ++i) {
    TENON_TRY(impl->addDims(i, inputDims[i]));
  }
  return impl->prepare();
}

bool Session::isPrepared() const { return impl->first().current() != nullptr; }

std::span<const int64_t> Session::outputDims(size_t output) const {
  const BoundPlan *current = impl->first().current();
  bool known = current && output < current->outputDims.size();
  return known ? std::span<const int64_t>(current->outputDims[output]) : std::span<const int64_t>();
}

uint64_t Session::outputBytes(size_t output) const {
  const BoundPlan *current = impl->first().current();
  bool known = current && output < current->outputBytes.size();
  return known ? static_cast<uint64_t>(current->outputBytes[output]) : 0;
}

Status Session::run(std::span<const InputBinding> inputs, std::span<const OutputBinding> outputs,
                    const RunOptions &options) {
  return impl->run({inputs, outputs}, options);
}

Status Session::runInOrder(std::span<const RunTensors> runs) { return impl->runInOrder(runs); }

const void *Session::outputData(size_t output) const {
  return impl->makerOf(output).executor().outputData(output);
}

Status Session::resetState() {
  return impl->forEachRank(
      [&](uint32_t rank) { return impl->ranks[rank]->executor().resetState(); });
}

MemoryUse Session::memoryUse() const {
  MemoryUse use;
  for (const std::unique_ptr<RankRunners> &rank : impl->ranks) {
    rank->addMemory(use);
  }
  const BoundPlan *current = impl->first().current();
  use.arenaLowerBoundBytes = current ? static_cast<uint64_t>(current->arenaLowerBound) : 0;
  return use;
}

void Session::setTiming(bool isOn) {
  for (const std::unique_ptr<RankRunners> &rank : impl->ranks) {
    rank->setTiming(isOn);
  }
}

const engine::Plan &Session::activePlan() const {
  const PlanRunner *active = impl->first().active();
  return active ? active->plan() : impl->plan();
}

RunInfo Session::info() const {
  RunInfo all;
  if (!impl->first().current()) {
    return all;
  }
  all = impl->first().executor().info(*impl->first().current());
  uint32_t each = impl->plan().ranksOfStage();
  for (uint32_t rank = each; rank < impl->ranks.size(); rank += each) {
    const RankRunners &own = *impl->ranks[rank];
    RunInfo info = own.executor().info(*own.current());
    all.kernels += info.kernels;
    all.calls += info.calls;
    all.moves += info.moves;
    all.collectives += info.collectives;
  }
  return all;
}

namespace {

Status nothingToTime() {
  return Status::error(ErrorId::BadArgument, "no run has been made that could be timed",
                       "run the session first");
}

} // namespace

Result<double> Session::timeRuns(unsigned count) {
  if (!impl->first().current()) {
    return nothingToTime();
  }
  TENON_ASSIGN(std::vector<double> seconds, impl->timeAll<double>([&](RankRunners &rank) {
    return rank.executor().timeRuns(*rank.current(), count);
  }));
  return *std::ranges::max_element(seconds);
}

Result<std::vector<StepTime>> Session::timeSteps(unsigned count, StepOrder order) {
  BoundPlan *current = impl->first().current();
  if (!current) {
    return nothingToTime();
  }
  TENON_ASSIGN(std::vector<std::vector<StepTime>> stages,
               impl->timeAll<std::vector<StepTime>>([&](RankRunners &rank) {
                 return rank.executor().timeSteps(*rank.current(), count, order);
               }));
  std::vector<StepTime> times;
  for (const std::vector<StepTime> &stage : stages) {
    times.insert(times.end(), stage.begin(), stage.end());
  }
  for (StepTime &time : times) {
    const engine::Instruction &instruction =
        impl->first().active()->plan().instructions[time.instruction];
    time.flops = current->valueOf(instruction.flops);
    time.bytesMoved = current->valueOf(instruction.bytesMoved);
  }
  return times;
}

} // namespace tenon::runtime

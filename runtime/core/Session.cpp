// Chooses the plan for the dims of a run, and has it run.

#include "runtime/core/Session.h"

#include "runtime/core/PlanRunner.h"
#include "support/Shape.h"
#include "support/text/Text.h"

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

} // namespace

struct Session::Impl {
  std::shared_ptr<const Engine> engine;
  SessionOptions options;
  /// By Engine's plans: the general one, then those that know some sizes, made when first needed.
  std::vector<std::unique_ptr<PlanRunner>> runners;
  PlanRunner *active = nullptr; ///< that of the dims prepared last
  bool isTimed = false;
  FlatDims wanted; ///< dims asked for, kept to allocate nothing in a run

  Impl(std::shared_ptr<const Engine> sharedEngine, const SessionOptions &sessionOptions)
      : engine(std::move(sharedEngine)), options(sessionOptions), runners(engine->plans()) {}

  const Plan &plan() const { return engine->plan(); }

  Status init() {
    TENON_ASSIGN(runners[0], PlanRunner::create(*engine, 0, options, nullptr));
    std::span<const int64_t> values = runners[0]->sessionValues();
    return plan().knownSymbols() == values.size() ? prepare(fixedDims(plan(), values))
                                                  : Status::ok();
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

  /// Binds a plan that knows these dims, else the general one.
  Status prepare(const FlatDims &dims) {
    if (active && active->current() && active->current()->inputDims == dims) {
      return active->bind(dims);
    }
    PlanRunner *before = std::exchange(active, nullptr);
    Status status;
    for (size_t i = 1; i < runners.size() && !active && status; ++i) {
      status = prepareBy(i, dims);
    }
    if (!active && status) {
      status = runners[0]->bind(dims);
      active = runners[0].get();
    }
    if (!status) {
      active = before; // a failed prepare leaves the last good one
    }
    return status;
  }

  /// Makes the plan that knows some sizes active if these are its, and all it relies on holds.
  Status prepareBy(size_t choice, const FlatDims &dims) {
    std::unique_ptr<PlanRunner> &runner = runners[choice];
    if (!PlanRunner::takes(engine->plan(choice), dims)) {
      return Status::ok();
    }
    if (!runner) {
      TENON_ASSIGN(runner, PlanRunner::create(*engine, choice, options, runners[0].get()));
      runner->executor().setTiming(isTimed);
    }
    if (runner->bind(dims).isOk()) {
      active = runner.get();
    }
    return Status::ok();
  }

  Status run(std::span<const InputBinding> inputs, std::span<const OutputBinding> outputs,
             const RunOptions &runOptions) {
    if (inputs.size() != plan().inputs.size()) {
      return countError("inputs", inputs.size(), plan().inputs.size());
    }
    if (outputs.size() != plan().outputs.size()) {
      return countError("outputs", outputs.size(), plan().outputs.size());
    }
    wanted.clear();
    for (size_t i = 0; i < inputs.size(); ++i) {
      TENON_TRY(addDims(i, inputs[i].dims));
    }
    TENON_TRY(prepare(wanted));
    return active->run(inputs, outputs, runOptions);
  }

  BoundPlan *current() const { return active ? active->current() : nullptr; }
  /// Of the dims prepared last, or the general one.
  Executor &executor() const { return active ? active->executor() : runners[0]->executor(); }
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

unsigned Session::threads() const { return impl->executor().threads(); }

Status Session::prepare(std::span<const std::span<const int64_t>> inputDims) {
  if (inputDims.size() != impl->plan().inputs.size()) {
    return countError("inputs", inputDims.size(), impl->plan().inputs.size());
  }
  impl->wanted.clear();
  for (size_t i = 0; i < inputDims.size(); ++i) {
    TENON_TRY(impl->addDims(i, inputDims[i]));
  }
  return impl->prepare(impl->wanted);
}

bool Session::isPrepared() const { return impl->current() != nullptr; }

std::span<const int64_t> Session::outputDims(size_t output) const {
  const BoundPlan *current = impl->current();
  bool known = current && output < current->outputDims.size();
  return known ? std::span<const int64_t>(current->outputDims[output]) : std::span<const int64_t>();
}

uint64_t Session::outputBytes(size_t output) const {
  const BoundPlan *current = impl->current();
  bool known = current && output < current->outputBytes.size();
  return known ? static_cast<uint64_t>(current->outputBytes[output]) : 0;
}

Status Session::run(std::span<const InputBinding> inputs, std::span<const OutputBinding> outputs,
                    const RunOptions &options) {
  return impl->run(inputs, outputs, options);
}

const void *Session::outputData(size_t output) const { return impl->executor().outputData(output); }

Status Session::resetState() { return impl->executor().resetState(); }

MemoryUse Session::memoryUse() const {
  MemoryUse use;
  for (const std::unique_ptr<PlanRunner> &runner : impl->runners) {
    if (runner) {
      use += runner->executor().memoryUse();
    }
  }
  const BoundPlan *current = impl->current();
  use.arenaLowerBoundBytes = current ? static_cast<uint64_t>(current->arenaLowerBound) : 0;
  return use;
}

void Session::setTiming(bool isOn) {
  impl->isTimed = isOn;
  for (const std::unique_ptr<PlanRunner> &runner : impl->runners) {
    if (runner) {
      runner->executor().setTiming(isOn);
    }
  }
}

const engine::Plan &Session::activePlan() const {
  return impl->active ? impl->active->plan() : impl->plan();
}

RunInfo Session::info() const {
  return impl->current() ? impl->executor().info(*impl->current()) : RunInfo();
}

namespace {

Status nothingToTime() {
  return Status::error(ErrorId::BadArgument, "no run has been made that could be timed",
                       "run the session first");
}

} // namespace

Result<double> Session::timeRuns(unsigned count) {
  return impl->current() ? impl->executor().timeRuns(*impl->current(), count) : nothingToTime();
}

Result<std::vector<StepTime>> Session::timeSteps(unsigned count, StepOrder order) {
  BoundPlan *current = impl->current();
  if (!current) {
    return nothingToTime();
  }
  TENON_ASSIGN(std::vector<StepTime> times, impl->executor().timeSteps(*current, count, order));
  for (StepTime &time : times) {
    const engine::Instruction &instruction = impl->active->plan().instructions[time.instruction];
    time.flops = current->valueOf(instruction.flops);
    time.bytesMoved = current->valueOf(instruction.bytesMoved);
  }
  return times;
}

} // namespace tenon::runtime

// Binds callers' tensors, keeps the last bound plans and the memory they share, and runs them.

#include "runtime/core/Session.h"

#include "support/Shape.h"
#include "support/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::runtime {

using engine::Plan;
using engine::Port;
using engine::Space;

namespace {

constexpr size_t kRememberedShapes = 64;

/// A bound plan and when it was last used.
struct CachedPlan {
  BoundPlan plan;
  uint64_t lastUse = 0;
};

bool overlaps(const void *a, int64_t aBytes, const void *b, int64_t bBytes) {
  uintptr_t aStart = reinterpret_cast<uintptr_t>(a);
  uintptr_t bStart = reinterpret_cast<uintptr_t>(b);
  return aStart < bStart + static_cast<uint64_t>(bBytes) &&
         bStart < aStart + static_cast<uint64_t>(aBytes);
}

Status bindingError(const char *kind, const Port &port, std::string_view message) {
  return Status::error(ErrorId::RunBadBinding, strCat(kind, " '", port.name, "': ", message),
                       "pass a valid, aligned buffer of the tensor's size");
}

} // namespace

struct Session::Impl {
  std::shared_ptr<const Engine> engine;
  const Plan &plan;
  SessionOptions options;
  std::unique_ptr<Executor> executor;
  OffsetPlanner planner;

  std::vector<std::unique_ptr<CachedPlan>> cache;
  BoundPlan *current = nullptr;
  uint64_t uses = 0;
  FlatDims wanted; ///< dims asked for, kept to allocate nothing in a run

  uint64_t stateBytes = 0;
  std::vector<std::byte *> roots; ///< by buffer; null for views

  Impl(std::shared_ptr<const Engine> sharedEngine, const SessionOptions &sessionOptions)
      : engine(std::move(sharedEngine)), plan(engine->plan()), options(sessionOptions) {}

  Status init() {
    TENON_ASSIGN(executor, engine->loaded().createExecutor(options));
    roots.assign(plan.buffers.size(), nullptr);
    for (const engine::Buffer &buffer : plan.buffers) {
      if (isRootOf(buffer, Space::State)) {
        stateBytes += stateSize(plan, buffer, executor->alignment());
        if (stateBytes > options.memoryLimit) {
          return outOfMemory(stateBytes);
        }
      }
    }
    TENON_TRY(executor->placeFixedRoots(roots));
    if (plan.inputSymbols() == 0) {
      return bind(constantDims());
    }
    return Status::ok();
  }

  FlatDims constantDims() const {
    FlatDims dims;
    for (const Port &port : plan.inputs) {
      for (engine::ExprId dim : port.dims) {
        dims.push_back(engine::evaluate(plan.exprs.program(dim), {}).value_or(-1));
      }
    }
    return dims;
  }

  Status outOfMemory(uint64_t bytes) const {
    return Status::error(
        ErrorId::RunOutOfMemory,
        strCat("the session needs ", bytes, " bytes, more than its limit of ", options.memoryLimit),
        "use smaller dims or raise the limit");
  }

  /// Puts the dims of one input behind those in `wanted`, after checking their number.
  Status addDims(size_t input, std::span<const int64_t> dims) {
    const Port &port = plan.inputs[input];
    if (dims.size() != port.dims.size()) {
      return Status::error(ErrorId::RunInputRank,
                           strCat("input '", port.name, "' has dims ", formatDims(dims),
                                  " of rank ", dims.size(), "; the engine takes rank ",
                                  port.dims.size()),
                           "pass the tensor with this rank");
    }
    wanted.insert(wanted.end(), dims.begin(), dims.end());
    return Status::ok();
  }

  static Status countError(const char *kind, size_t given, size_t expected) {
    return Status::error(ErrorId::RunInputCount,
                         strCat(given, " ", kind, " were given; the engine has ", expected),
                         "pass one tensor for each, in the engine's order");
  }

  /// Makes the bound plan for `dims` current, from the cache or by binding now.
  Status bind(const FlatDims &dims) {
    if (current && current->inputDims == dims) {
      return current->resetSizes(plan);
    }
    for (std::unique_ptr<CachedPlan> &entry : cache) {
      if (entry->plan.inputDims == dims) {
        entry->lastUse = ++uses;
        TENON_TRY(entry->plan.resetSizes(plan));
        return activate(entry->plan);
      }
    }
    TENON_ASSIGN(BoundPlan bound, BoundPlan::bind(plan, dims, executor->alignment(), planner));
    uint64_t need = stateBytes + static_cast<uint64_t>(bound.arenaBytes);
    uint64_t scratch = executor->scratchNeed(bound);
    if (need > options.memoryLimit || scratch > options.memoryLimit - need) {
      return outOfMemory(scratch > UINT64_MAX - need ? UINT64_MAX : need + scratch);
    }
    return activate(remember(std::move(bound)));
  }

  BoundPlan &remember(BoundPlan bound) {
    std::unique_ptr<CachedPlan> entry(new CachedPlan{std::move(bound), ++uses});
    if (cache.size() < kRememberedShapes) {
      cache.push_back(std::move(entry));
      return cache.back()->plan;
    }
    std::unique_ptr<CachedPlan> &oldest = *std::min_element(
        cache.begin(), cache.end(),
        [](const std::unique_ptr<CachedPlan> &a, const std::unique_ptr<CachedPlan> &b) {
          return a->lastUse < b->lastUse;
        });
    current = nullptr;
    oldest = std::move(entry);
    return oldest->plan;
  }

  Status activate(BoundPlan &bound) {
    current = nullptr;
    TENON_TRY(executor->activate(bound, roots));
    bound.setPointers(roots);
    current = &bound;
    return Status::ok();
  }

  Status bindInputs(std::span<const InputBinding> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Port &port = plan.inputs[i];
      if (!inputs[i].data && current->inputBytes[i] != 0) {
        return bindingError("input", port, "its pointer is null");
      }
      if (reinterpret_cast<uintptr_t>(inputs[i].data) % alignmentOf(port.dtype) != 0) {
        return bindingError("input", port, "its pointer is not aligned to its element");
      }
      uint64_t bytes = static_cast<uint64_t>(current->inputBytes[i]);
      Status bound = executor->bindInput(i, inputs[i], bytes, roots[port.buffer]);
      if (!bound.isOk()) {
        return bound.prefix(strCat("input '", port.name, "'"));
      }
    }
    return Status::ok();
  }

  Status bindOutputs(std::span<const OutputBinding> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Port &port = plan.outputs[i];
      uint64_t bytes = static_cast<uint64_t>(current->outputBytes[i]);
      if (!outputs[i].data && bytes > options.memoryLimit) {
        return outOfMemory(bytes);
      }
      if (outputs[i].data && outputs[i].bytes < bytes) {
        return bindingError("output", port,
                            strCat("it needs ", bytes, " bytes but has ", outputs[i].bytes));
      }
      if (reinterpret_cast<uintptr_t>(outputs[i].data) % alignmentOf(port.dtype) != 0) {
        return bindingError("output", port, "its pointer is not aligned to its element");
      }
      Status bound = executor->bindOutput(i, outputs[i], bytes, roots[port.buffer]);
      if (!bound.isOk()) {
        return bound.prefix(strCat("output '", port.name, "'"));
      }
    }
    return Status::ok();
  }

  /// Kernels read and write at once, so nothing written may overlap anything else.
  Status checkOverlap() const {
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      const std::byte *data = roots[plan.outputs[i].buffer];
      int64_t bytes = current->outputBytes[i];
      for (size_t k = 0; k < plan.inputs.size(); ++k) {
        if (overlaps(data, bytes, roots[plan.inputs[k].buffer], current->inputBytes[k])) {
          return bindingError("output", plan.outputs[i], "its memory overlaps an input");
        }
      }
      for (size_t k = 0; k < i; ++k) {
        if (overlaps(data, bytes, roots[plan.outputs[k].buffer], current->outputBytes[k])) {
          return bindingError("output", plan.outputs[i], "its memory overlaps another output");
        }
      }
    }
    return Status::ok();
  }

  Status run(std::span<const InputBinding> inputs, std::span<const OutputBinding> outputs,
             const RunOptions &runOptions) {
    if (inputs.size() != plan.inputs.size()) {
      return countError("inputs", inputs.size(), plan.inputs.size());
    }
    if (outputs.size() != plan.outputs.size()) {
      return countError("outputs", outputs.size(), plan.outputs.size());
    }
    wanted.clear();
    for (size_t i = 0; i < inputs.size(); ++i) {
      TENON_TRY(addDims(i, inputs[i].dims));
    }
    TENON_TRY(bind(wanted));
    TENON_TRY(bindInputs(inputs));
    TENON_TRY(bindOutputs(outputs));
    TENON_TRY(checkOverlap());
    current->setPortPointers(roots);
    return executor->execute(*current, runOptions);
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

unsigned Session::threads() const { return impl->executor->threads(); }

Status Session::prepare(std::span<const std::span<const int64_t>> inputDims) {
  if (inputDims.size() != impl->plan.inputs.size()) {
    return Impl::countError("inputs", inputDims.size(), impl->plan.inputs.size());
  }
  impl->wanted.clear();
  for (size_t i = 0; i < inputDims.size(); ++i) {
    TENON_TRY(impl->addDims(i, inputDims[i]));
  }
  return impl->bind(impl->wanted);
}

bool Session::isPrepared() const { return impl->current != nullptr; }

std::span<const int64_t> Session::outputDims(size_t output) const {
  bool known = impl->current && output < impl->current->outputDims.size();
  return known ? std::span<const int64_t>(impl->current->outputDims[output])
               : std::span<const int64_t>();
}

uint64_t Session::outputBytes(size_t output) const {
  bool known = impl->current && output < impl->current->outputBytes.size();
  return known ? static_cast<uint64_t>(impl->current->outputBytes[output]) : 0;
}

Status Session::run(std::span<const InputBinding> inputs, std::span<const OutputBinding> outputs,
                    const RunOptions &options) {
  return impl->run(inputs, outputs, options);
}

const void *Session::outputData(size_t output) const { return impl->executor->outputData(output); }

Status Session::resetState() { return impl->executor->resetState(); }

MemoryUse Session::memoryUse() const {
  MemoryUse use = impl->executor->memoryUse();
  use.arenaLowerBoundBytes =
      impl->current ? static_cast<uint64_t>(impl->current->arenaLowerBound) : 0;
  return use;
}

void Session::setTiming(bool isOn) { impl->executor->setTiming(isOn); }

RunFacts Session::facts() const {
  return impl->current ? impl->executor->facts(*impl->current) : RunFacts();
}

namespace {

Status nothingToTime() {
  return Status::error(ErrorId::BadArgument, "no run was made that could be timed",
                       "run the session first");
}

} // namespace

Result<double> Session::timeRuns(unsigned count) {
  return impl->current ? impl->executor->timeRuns(*impl->current, count) : nothingToTime();
}

Result<std::vector<StepTime>> Session::timeSteps(unsigned count) {
  if (!impl->current) {
    return nothingToTime();
  }
  TENON_ASSIGN(std::vector<StepTime> times, impl->executor->timeSteps(*impl->current, count));
  for (StepTime &time : times) {
    const engine::Instruction &instruction = impl->plan.instructions[time.instruction];
    time.flops = impl->current->valueOf(instruction.flops);
    time.bytesMoved = impl->current->valueOf(instruction.bytesMoved);
  }
  return times;
}

} // namespace tenon::runtime

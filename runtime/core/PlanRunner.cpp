// Binds callers' tensors, keeps the last bound plans and the memory they share, and runs them.

#include "runtime/core/PlanRunner.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::runtime {

using engine::Plan;
using engine::Port;
using engine::Space;

namespace {

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

Result<std::unique_ptr<PlanRunner>> PlanRunner::create(const Engine &engine, size_t choice,
                                                       const SessionOptions &options,
                                                       const PlanRunner *beside, RankPlace place) {
  TENON_ASSIGN(const LoadedVariant *variant, engine.loaded(choice, place.rank));
  std::unique_ptr<PlanRunner> runner(new PlanRunner(engine.plan(choice), options));
  TENON_TRY(runner->init(*variant, beside, place));
  return runner;
}

Status PlanRunner::init(const LoadedVariant &variant, const PlanRunner *beside, RankPlace place) {
  const Executor *executorBeside = beside ? beside->planExecutor.get() : nullptr;
  TENON_ASSIGN(planExecutor, variant.createExecutor(options, executorBeside, place));
  roots.assign(enginePlan.buffers.size(), nullptr);
  stage = place.stage;
  buffersOfStage = engine::buffersOfStage(enginePlan, stage);
  TENON_ASSIGN(session, runtime::sessionValues(enginePlan, options.symbols));
  TENON_ASSIGN(StateLayout states,
               layOutState(enginePlan, session, planExecutor->alignment(), stage));
  stateBytes = states.bytes;
  if (stateBytes > options.memoryLimit) {
    return outOfMemory(stateBytes);
  }
  TENON_TRY(planExecutor->placeFixedRoots(roots, states));
  // Nothing can read what other stages have.
  for (uint32_t buffer = 0; buffer < roots.size(); ++buffer) {
    if (!buffersOfStage[buffer]) {
      roots[buffer] = nullptr;
    }
  }
  return Status::ok();
}

bool PlanRunner::takes(const Plan &plan, const FlatDims &dims) {
  size_t next = 0;
  for (const Port &port : plan.inputs) {
    for (engine::ExprId dim : port.dims) {
      bool isConstant = plan.exprs.symbolsNamed(dim) == 0;
      if (isConstant && engine::evaluate(plan.exprs.program(dim), {}) != dims[next]) {
        return false;
      }
      ++next;
    }
  }
  return true;
}

Status PlanRunner::outOfMemory(uint64_t bytes) const {
  return Status::error(
      ErrorId::RunOutOfMemory,
      strCat("the session needs ", bytes, " bytes, more than its limit of ", options.memoryLimit),
      "use smaller dims or session values, or raise the limit");
}

Status PlanRunner::bind(const FlatDims &dims) {
  if (currentPlan && currentPlan->inputDims == dims) {
    return currentPlan->resetSizes(enginePlan);
  }
  for (std::unique_ptr<CachedPlan> &entry : cache) {
    if (entry->plan.inputDims == dims) {
      entry->lastUse = ++uses;
      TENON_TRY(entry->plan.resetSizes(enginePlan));
      return activate(entry->plan);
    }
  }
  TENON_ASSIGN(BoundPlan bound, BoundPlan::bind(enginePlan, session, dims,
                                                planExecutor->alignment(), planner, stage));
  uint64_t need = stateBytes + static_cast<uint64_t>(bound.arenaBytes);
  uint64_t scratch = planExecutor->scratchNeed(bound);
  if (need > options.memoryLimit || scratch > options.memoryLimit - need) {
    return outOfMemory(scratch > UINT64_MAX - need ? UINT64_MAX : need + scratch);
  }
  return activate(remember(std::move(bound)));
}

BoundPlan &PlanRunner::remember(BoundPlan bound) {
  std::unique_ptr<CachedPlan> entry(new CachedPlan{std::move(bound), ++uses});
  if (cache.size() < planExecutor->rememberedShapes(enginePlan)) {
    cache.push_back(std::move(entry));
    return cache.back()->plan;
  }
  std::unique_ptr<CachedPlan> &oldest = *std::min_element(
      cache.begin(), cache.end(),
      [](const std::unique_ptr<CachedPlan> &a, const std::unique_ptr<CachedPlan> &b) {
        return a->lastUse < b->lastUse;
      });
  currentPlan = nullptr;
  oldest = std::move(entry);
  return oldest->plan;
}

Status PlanRunner::activate(BoundPlan &bound) {
  currentPlan = nullptr;
  TENON_TRY(planExecutor->activate(bound, roots));
  bound.setPointers(roots);
  currentPlan = &bound;
  return Status::ok();
}

Status PlanRunner::bindInputs(std::span<const InputBinding> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port &port = enginePlan.inputs[i];
    if (!inputs[i].data && currentPlan->inputBytes[i] != 0) {
      return bindingError("input", port, "its pointer is null");
    }
    if (reinterpret_cast<uintptr_t>(inputs[i].data) % alignmentOf(port.dtype) != 0) {
      return bindingError("input", port, "its pointer is not aligned to its element");
    }
    if (!buffersOfStage[port.buffer]) {
      continue;
    }
    uint64_t bytes = static_cast<uint64_t>(currentPlan->inputBytes[i]);
    Status bound = planExecutor->bindInput(i, inputs[i], bytes, roots[port.buffer]);
    if (!bound.isOk()) {
      return bound.prefix(strCat("input '", port.name, "'"));
    }
  }
  return Status::ok();
}

Status PlanRunner::bindOutputs(std::span<const OutputBinding> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Port &port = enginePlan.outputs[i];
    uint64_t bytes = static_cast<uint64_t>(currentPlan->outputBytes[i]);
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
    if (!buffersOfStage[port.buffer]) {
      continue;
    }
    Status bound = planExecutor->bindOutput(i, outputs[i], bytes, roots[port.buffer]);
    if (!bound.isOk()) {
      return bound.prefix(strCat("output '", port.name, "'"));
    }
  }
  return Status::ok();
}

/// Kernels read and write at once, so nothing written may overlap anything else.
Status PlanRunner::checkOverlap() const {
  for (size_t i = 0; i < enginePlan.outputs.size(); ++i) {
    const std::byte *data = roots[enginePlan.outputs[i].buffer];
    int64_t bytes = data ? currentPlan->outputBytes[i] : 0;
    for (size_t k = 0; k < enginePlan.inputs.size(); ++k) {
      if (overlaps(data, bytes, roots[enginePlan.inputs[k].buffer], currentPlan->inputBytes[k])) {
        return bindingError("output", enginePlan.outputs[i], "its memory overlaps an input");
      }
    }
    for (size_t k = 0; k < i; ++k) {
      if (overlaps(data, bytes, roots[enginePlan.outputs[k].buffer], currentPlan->outputBytes[k])) {
        return bindingError("output", enginePlan.outputs[i], "its memory overlaps another output");
      }
    }
  }
  return Status::ok();
}

Status PlanRunner::run(std::span<const InputBinding> inputs, std::span<const OutputBinding> outputs,
                       const RunOptions &runOptions) {
  TENON_TRY(bindInputs(inputs));
  TENON_TRY(bindOutputs(outputs));
  TENON_TRY(checkOverlap());
  currentPlan->setPortPointers(roots);
  return planExecutor->execute(*currentPlan, runOptions);
}

} // namespace tenon::runtime

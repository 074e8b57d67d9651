// The fields of CompileOptions one by one, for what must not miss any: the key of the compile
// cache.
#pragma once

#include "compiler/api/CompileOptions.h"

#include <tuple>

namespace tenon::pipeline {

/// Calls `visit(name, value)` for each field that decides the engine's bytes. A field that is added
/// to CompileOptions must be named here, or this does not compile.
template <typename Visitor> void visitFields(const CompileOptions &options, Visitor &&visit) {
  const auto &[model, output, shapes, optimizeFor, fixed, states, presets, pages, cache, invariant,
               tensorParallel, pipelineParallel, pins, levels, addsLevels, cpu, gpus, assembler,
               precision, allowTf32, allowTanhGelu, allowInt8Activations, guard, extraOutputs,
               observed, strict, verify, stopAfter, dumpPhases, cacheFolder, reproducer, threads,
               optimize, kernels, disabledFamilies, maxWeights, tuned, passes, passDump, progress,
               notice, cancel, kernelLibraries, tryKernel, uncheckedKernels] = options;
  visit("levels", levels);
  visit("profile", cpu);
  visit("levels", gpus);
  visit("shapes", shapes);
  visit("optimize_for", optimizeFor);
  visit("fixed", fixed);
  visit("states", states);
  visit("presets", presets);
  visit("pages", pages);
  visit("cache", cache);
  visit("invariant", invariant);
  visit("tensor_parallel", tensorParallel > 1 || invariant ? tensorParallel : uint64_t{0});
  visit("pipeline_parallel", pipelineParallel > 1 ? pipelineParallel : uint64_t{0});
  visit("pins", pins);
  visit("adds_levels", addsLevels);
  visit("cubin", assembler);
  visit("precision", precision);
  visit("allow_tf32", allowTf32);
  visit("allow_tanh_gelu", allowTanhGelu);
  visit("allow_int8_activations", allowInt8Activations);
  visit("guard", guard);
  visit("taps", extraOutputs);
  visit("observed", observed);
  visit("optimize", optimize);
  visit("kernels", kernels);
  visit("kernel_libraries", kernelLibraries);
  visit("unchecked_kernels", uncheckedKernels);
  visit("disabled_families", disabledFamilies);
  visit("max_weights", maxWeights);
  visit("passes", passes);
  visit("tuned", tuned);
  // The model counts by its contents. These decide whether there is an engine, where files go, how
  // long it takes and who hears of it; a compilation that checks, stops or dumps takes no engine
  // from the cache.
  std::ignore = std::tie(model, output, strict, verify, stopAfter, dumpPhases, cacheFolder,
                         reproducer, threads, passDump, progress, notice, cancel, tryKernel);
}

} // namespace tenon::pipeline

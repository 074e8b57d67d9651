// What a session will hold, before there is one. Relies on valid plans; loads no code and allocates
// nothing of what it counts.
#pragma once

#include "engine/Reader.h"
#include "runtime/plan/Device.h"
#include "support/Result.h"

#include <span>

namespace tenon::runtime {

/// Of the general plan of a variant. The file outlives it.
class MemoryForecast {
public:
  /// `threads` as SessionOptions'.
  MemoryForecast(const engine::EngineFile &file, size_t variant, unsigned threads);

  /// What is held once a run with inputs of these dims has been made, in bytes, by a session with
  /// these values for its symbols. Dims beyond the
  /// declared ranges are asked for as if the ranges went as far. Weights are those that the plan
  /// reads, mapped on a CPU and copied to a GPU; staging is left out.
  Result<MemoryUse> of(const FlatDims &dims, std::span<const SymbolValue> symbols = {}) const;
  size_t instructions() const { return variant.plan.instructions.size(); }
  size_t inputs() const { return variant.plan.inputs.size(); }
  /// The largest size that an input's dim takes.
  int64_t mostOf(size_t input, size_t dim) const;

private:
  const engine::EngineFile &file;
  const engine::Variant &variant;
  unsigned threads;
};

} // namespace tenon::runtime

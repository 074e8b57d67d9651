// Times runs of an engine on a GPU as they are in a model: weights come from memory, inputs are
// where the region before has left them; and tells whether the GPU's clock is as fast as before.

#pragma once

#include "runtime/core/Session.h"
#include "runtime/tensors/Tensor.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace tenon::tool {

struct GpuRaceOptions {
  int gpu = 0;
  /// Bytes of other data that are read before a run.
  uint64_t otherBytes = 0;
  /// Inputs are written anew before a run, as the region before would, so that they are in the
  /// caches; else they come from memory as weights do.
  bool writesInputs = true;
};

/// A session on the inputs of a race, whose outputs stay on the GPU.
class GpuContender {
public:
  virtual ~GpuContender() = default;
  virtual runtime::Session &session() = 0;
  /// Of the last run, on the host.
  virtual Result<std::vector<Tensor>> outputs() = 0;
  /// Device seconds of a run: the median of some in a row.
  virtual Result<double> seconds() = 0;
};

/// Whatever runs alternately on one GPU. Not for several threads at once.
class GpuRace {
public:
  /// `inputs` are copied to the GPU, once for all that run.
  static Result<std::unique_ptr<GpuRace>> create(const GpuRaceOptions &options,
                                                 const std::vector<Tensor> &inputs);
  virtual ~GpuRace() = default;
  /// Of an engine that takes the inputs; it has run. The race outlives it.
  virtual Result<std::unique_ptr<GpuContender>> add(std::shared_ptr<const runtime::Engine> engine,
                                                    const runtime::SessionOptions &options) = 0;
  /// Device seconds of a kernel that does arithmetic alone: longer where the clock is lower.
  virtual Result<double> clockSeconds() = 0;
};

} // namespace tenon::tool

// What `bench` measures of an engine on a GPU by the GPU's own clock: runs in a row on tensors that
// stay on the device, warm or through more sets of tensors than its caches hold, and what the
// device reaches by copying.

#pragma once

#include "runtime/core/Session.h"
#include "runtime/tensors/Tensor.h"

#include <memory>
#include <optional>
#include <vector>

namespace tenon::tool {

/// Sessions of one engine, each with tensors of its own on the GPU, run in turn.
class ColdRuns {
public:
  static Result<std::unique_ptr<ColdRuns>> create(std::shared_ptr<const runtime::Engine> engine,
                                                  const std::vector<Tensor> &inputs,
                                                  const runtime::SessionOptions &options);
  virtual ~ColdRuns() = default;
  virtual size_t sets() const = 0;
  /// Device seconds of one run, over one turn of all sets.
  virtual Result<double> seconds() = 0;
};

/// Best rates of the GPU at this moment.
struct GpuProbe {
  double copyTerabytes = 0; ///< a second, read and written bytes together
  /// TF/s of a product of 8192 by 8192 matrices in BF16; none where cuBLASLt is missing.
  std::optional<double> productTeraflops;
  /// From the start of a small kernel to that of the next, which waits for it, in a graph.
  double kernelSeconds = 0;
};

Result<GpuProbe> probeGpu(int gpu);

/// What starting the driver and the context took, by whichever engine came first; 0 on a CPU.
Result<double> contextMilliseconds(const runtime::Engine &engine);

} // namespace tenon::tool

// The process in which kernels of the user's run on a GPU: their faults end that one alone.
#pragma once

#include "compiler/kernels/Library.h"

#include <sys/types.h>

namespace tenon::tool {

/// Trials on the first GPU. The process starts with the first of them, serves the others, and
/// starts anew after each that failed. A PyTorch or an engine in the caller's process keeps its use
/// of the GPU whatever a kernel does. Not for two threads at once.
class GpuTrials {
public:
  GpuTrials() = default;
  GpuTrials(const GpuTrials &) = delete;
  GpuTrials &operator=(const GpuTrials &) = delete;
  ~GpuTrials();

  /// TN0309 if this machine has no GPU that runs the level or the command tenon is not where this
  /// program's library expects it, TN0410 for an access outside the buffers, TN0412 for a fault or
  /// no end within 10 s.
  Result<kernels::TrialResult> run(const kernels::Trial &trial);

private:
  Status start();
  /// Ends the process; says how it ended if it did so by itself.
  std::string stop();

  pid_t process = -1;
  int socket = -1;
};

/// Whether a program was started to be that process, which `serveGpuTrials` is then to do.
bool isGpuTrialProcess(int argc, char **argv);
/// Answers trials on stdin until no more come, or one failed. Gives the exit code.
int serveGpuTrials();

} // namespace tenon::tool

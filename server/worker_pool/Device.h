// Where a model runs: on the CPU, on one of the GPUs that the server sees, or on a group of them, a
// GPU for each rank of its engine. Only the names of GPUs are known here, no driver is asked.

#pragma once

#include "server/protocol/ModelConfig.h"
#include "support/Result.h"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::server {

struct Device {
  /// As the driver counts those that the server sees, by rank; empty: the CPU.
  std::vector<uint64_t> gpus;

  bool isCpu() const { return gpus.empty(); }
  /// Whether what one takes is missing for the other.
  bool shares(const Device &other) const;
  /// "cpu", "gpu0", "gpu0+gpu1".
  std::string name() const;
  auto operator<=>(const Device &) const = default;
};

/// What each GPU is called in CUDA_VISIBLE_DEVICES, in the driver's order: the entries of `visible`
/// where that is set (null: it is not), or else a number for each device of NVIDIA's in
/// `deviceFolder`.
std::vector<std::string> findGpus(const char *visible, const std::string &deviceFolder);

/// What an engine has code for.
struct EngineNeeds {
  bool runsOnCpu = true, runsOnGpu = false;
  uint64_t ranks = 1; ///< each on a GPU of its own
};

/// Where a model is to run, where `taken` has the bytes that models take on each GPU. GPUs that
/// nobody names are those with the fewest, of equal ones the first. TN0702 where the model wants a
/// GPU, or more of them, than there are.
Result<Device> chooseDevice(const Placement &placement, const EngineNeeds &needs,
                            const std::vector<uint64_t> &taken);

} // namespace tenon::server

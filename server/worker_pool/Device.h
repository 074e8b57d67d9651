// Where a model runs: on the CPU, or on one of the GPUs that the server sees. Only the names of
// GPUs are known here, no driver is asked.

#pragma once

#include "server/protocol/ModelConfig.h"
#include "support/Result.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::server {

struct Device {
  std::optional<uint64_t> gpu; ///< as the driver counts those that the server sees; none: the CPU

  bool isCpu() const { return !gpu; }
  /// "cpu", "gpu0".
  std::string name() const;
  auto operator<=>(const Device &) const = default;
};

/// What each GPU is called in CUDA_VISIBLE_DEVICES, in the driver's order: the entries of `visible`
/// where that is set (null: it is not), or else a number for each device of NVIDIA's in
/// `deviceFolder`.
std::vector<std::string> findGpus(const char *visible, const std::string &deviceFolder);

/// Where a model is to run, where `taken` has the bytes that models take on each GPU. A GPU that
/// nobody names is the one with the fewest, of equal ones the first. TN0702 where the model wants a
/// GPU that is not there.
Result<Device> chooseDevice(const Placement &placement, bool runsOnGpu,
                            const std::vector<uint64_t> &taken);

} // namespace tenon::server

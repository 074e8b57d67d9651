// NVIDIA's driver has a device file for each GPU, and none for those that a container was not
// given.

#include "server/worker_pool/Device.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace tenon::server {

std::string Device::name() const { return gpu ? fmt::format("gpu{}", *gpu) : "cpu"; }

std::vector<std::string> findGpus(const char *visible, const std::string &deviceFolder) {
  std::vector<std::string> gpus;
  if (visible) {
    // As the driver reads it: what follows an entry that names none is not seen.
    for (std::string_view rest = visible; !rest.empty();) {
      size_t comma = std::min(rest.find(','), rest.size());
      std::string_view name = rest.substr(0, comma);
      if (name.empty() || name.starts_with('-') || name == "NoDevFiles") {
        break;
      }
      gpus.emplace_back(name);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return gpus;
  }
  std::error_code error;
  for (std::filesystem::directory_iterator each(deviceFolder, error), end; !error && each != end;
       each.increment(error)) {
    std::string name = each->path().filename();
    constexpr std::string_view kPrefix("nvidia");
    bool isNumbered = name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
                      name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
    if (isNumbered || name == "dxg") { // the one of Windows' GPUs, in its subsystem for Linux
      gpus.push_back(std::to_string(gpus.size()));
    }
  }
  return gpus;
}

Result<Device> chooseDevice(const Placement &placement, bool runsOnGpu,
                            const std::vector<uint64_t> &taken) {
  bool isThere = placement.gpu ? *placement.gpu < taken.size() : !taken.empty();
  bool isForced = placement.kind == Placement::Kind::Gpu;
  if (isForced && !isThere) {
    return Status::error(
        ErrorId::DeviceNotFound,
        placement.gpu ? fmt::format("the model needs GPU {}, but the server sees {}",
                                    *placement.gpu, taken.size())
                      : "the model needs a GPU, but the server sees none",
        "check nvidia-smi and CUDA_VISIBLE_DEVICES, or change instance_group in config.pbtxt");
  }
  if (placement.kind == Placement::Kind::Cpu || !isThere || (!isForced && !runsOnGpu)) {
    return Device();
  }
  return Device{placement.gpu ? *placement.gpu
                              : static_cast<uint64_t>(std::min_element(taken.begin(), taken.end()) -
                                                      taken.begin())};
}

} // namespace tenon::server

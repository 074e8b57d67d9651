// NVIDIA's driver has a device file for each GPU, and none for those that a container was not
// given.

#include "server/worker_pool/Device.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string_view>
#include <system_error>

namespace tenon::server {

namespace {

Status missing(const Placement &placement, uint64_t lastNamed, uint64_t wanted, size_t seen) {
  std::string text =
      wanted > 1 && seen < wanted
          ? fmt::format("the engine is for {} GPUs together, but the server sees {}", wanted, seen)
      : !placement.gpus.empty()
          ? fmt::format("the model needs GPU {}, but the server sees {}", lastNamed, seen)
          : "the model needs a GPU, but the server sees none";
  return Status::error(
      ErrorId::DeviceNotFound, std::move(text),
      "check nvidia-smi and CUDA_VISIBLE_DEVICES, or change instance_group in config.pbtxt");
}

/// In the driver's order.
std::vector<uint64_t> emptiest(uint64_t count, const std::vector<uint64_t> &taken) {
  std::vector<uint64_t> gpus(taken.size());
  std::iota(gpus.begin(), gpus.end(), 0);
  std::ranges::stable_sort(gpus, {}, [&](uint64_t gpu) { return taken[gpu]; });
  gpus.resize(count);
  std::ranges::sort(gpus);
  return gpus;
}

} // namespace

std::string Device::name() const {
  std::string name;
  for (uint64_t gpu : gpus) {
    name += fmt::format("{}gpu{}", name.empty() ? "" : "+", gpu);
  }
  return isCpu() ? "cpu" : name;
}

bool Device::shares(const Device &other) const {
  return isCpu() ? other.isCpu() : std::ranges::any_of(gpus, [&](uint64_t gpu) {
    return std::ranges::find(other.gpus, gpu) != other.gpus.end();
  });
}

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

Result<Device> chooseDevice(const Placement &placement, const EngineNeeds &needs,
                            const std::vector<uint64_t> &taken) {
  uint64_t lastNamed = placement.gpus.empty() ? 0 : std::ranges::max(placement.gpus);
  uint64_t wanted = needs.runsOnGpu ? needs.ranks : 1;
  bool isNamed = !placement.gpus.empty();
  bool isThere = taken.size() >= wanted && lastNamed < taken.size();
  bool isForced = placement.kind == Placement::Kind::Gpu ||
                  (wanted > 1 && !needs.runsOnCpu && placement.kind == Placement::Kind::Auto);
  if (isForced && !isThere) {
    return missing(placement, lastNamed, wanted, taken.size());
  }
  if (placement.kind == Placement::Kind::Cpu || !isThere || (!isForced && !needs.runsOnGpu)) {
    return Device();
  }
  if (isNamed && placement.gpus.size() != wanted) {
    return Status::error(ErrorId::DeviceNotFound,
                         fmt::format("the engine has {} rank{}, each for a GPU of its own, but "
                                     "instance_group names {}",
                                     wanted, wanted == 1 ? "" : "s", placement.gpus.size()),
                         "name as many GPUs in config.pbtxt, or none");
  }
  return Device{isNamed ? placement.gpus : emptiest(wanted, taken)};
}

} // namespace tenon::server

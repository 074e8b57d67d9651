// Relies on the cache folder of the user, where all of Tenon's state is.

#include "tools/tenon/target/LocalStore.h"

#include "engine/Level.h"
#include "support/Environment.h"
#include "tools/tenon/target/LocalCpu.h"
#include "tools/tenon/target/LocalGpu.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::tool {

Result<std::string> storeFolder(const std::string &store) {
  if (!store.empty()) {
    return store;
  }
  std::string cache = userCacheFolder();
  return cache.empty() ? Result<std::string>(Status::error(
                             ErrorId::BadArgument,
                             "there is no folder for the tuning store: neither HOME nor "
                             "XDG_CACHE_HOME is set",
                             "name one with --store"))
                       : Result<std::string>(cache + "/tuning");
}

void noteFaults(const tuning::Records &records,
                const std::function<void(std::string_view)> &notice) {
  for (const std::string &fault : records.faults) {
    notice(fmt::format("{}: {}; it is not used", nameOf(ErrorId::BadTuningStore), fault));
  }
  if (records.isTorn) {
    notice("the last record of the tuning store is incomplete and is dropped");
  }
}

std::string deviceText(const std::string &device, uint64_t threads, const std::string &level) {
  return engine::parseCudaArch(level) ? fmt::format("{}: {}", device, level)
                                      : fmt::format("{}: {} threads, {}", device, threads, level);
}

std::vector<tuning::Device> localDevices(const std::vector<tuning::Record> &records, bool asksGpu) {
  std::vector<tuning::Device> devices = {localCpuDevice()};
  bool isNeeded = asksGpu && std::ranges::any_of(records, [](const tuning::Record &record) {
                    return engine::parseCudaArch(record.level).has_value();
                  });
  if (isNeeded) {
    Result<tuning::Device> gpu = localGpuDevice();
    if (gpu) { // without one, no record of a GPU answers here
      devices.push_back(std::move(*gpu));
    }
  }
  return devices;
}

Result<std::shared_ptr<const tuning::TuningDatabase>>
localDatabase(const std::string &store, bool asksGpu,
              const std::function<void(std::string_view)> &notice) {
  std::shared_ptr<const tuning::TuningDatabase> database;
  Result<std::string> folder = storeFolder(store);
  if (!folder) {
    return database; // nothing to read, as there is nowhere to write
  }
  Result<tuning::Records> records = tuning::readStore(*folder);
  if (!records && !store.empty()) {
    return records.takeStatus();
  }
  if (!records) {
    notice(fmt::format("the tuning store is not used: {}", records.status().toString()));
    return database;
  }
  noteFaults(*records, notice);
  if (!records->records.empty()) {
    database = std::make_shared<const tuning::TuningDatabase>(
        records->records, localDevices(records->records, asksGpu));
  }
  return database;
}

} // namespace tenon::tool

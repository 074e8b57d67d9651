// Relies on the cache folder of the user, where all of Tenon's state is.

#include "tools/tenon/target/LocalStore.h"

#include "support/Environment.h"
#include "tools/tenon/target/LocalCpu.h"

#include <fmt/format.h>

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

Result<std::shared_ptr<const tuning::TuningDatabase>>
localDatabase(const std::string &store, const std::function<void(std::string_view)> &notice) {
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
    database = std::make_shared<const tuning::TuningDatabase>(records->records, localCpuDevice());
  }
  return database;
}

} // namespace tenon::tool

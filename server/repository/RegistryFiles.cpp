// Files of a registry that are elsewhere: brought for a version that is to be loaded, and counted.

#include "server/protocol/MetricsText.h"
#include "server/repository/RegistryRepository.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace tenon::server {
namespace {

/// The file under a lock that keeps it from leaving this machine for others; nothing where it left
/// just now.
std::shared_ptr<Descriptor> openKept(const std::string &path) {
  std::shared_ptr<Descriptor> file =
      std::make_shared<Descriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  bool isKept = file->isOpen() && flock(file->get(), LOCK_SH | LOCK_NB) == 0 &&
                fstat(file->get(), &info) == 0 && info.st_nlink > 0;
  return isKept ? file : nullptr;
}

} // namespace

void RegistryRepository::provide(const std::vector<RemoteFile> &wanted, OnFile onEnd) {
  boost::asio::post(fetching, [this, wanted, onEnd = std::move(onEnd)] {
    Status problem;
    // The engine last, so that what goes with it is here when it is loaded.
    for (size_t i = wanted.size(); i-- > 0 && problem.isOk();) {
      problem = files->provide({wanted[i].sha256, wanted[i].bytes});
      if (!problem.isOk() && wanted[i].isOptional) {
        log(problem.toString(), LogLevel::Warning);
        problem = Status::ok();
      }
    }
    std::shared_ptr<Descriptor> engine =
        problem.isOk() ? openKept(files->pathOf(wanted.front().sha256)) : nullptr;
    if (problem.isOk() && !engine) {
      problem = Status::error(ErrorId::FileWriteFailed,
                              "an engine was evicted from the disk cache before it could be loaded",
                              "raise --cache-size");
    }
    onEnd(problem.isOk() ? Result<std::shared_ptr<Descriptor>>(std::move(engine))
                         : Result<std::shared_ptr<Descriptor>>(std::move(problem)));
  });
}

std::string RegistryRepository::metrics() const {
  if (!files->isRemote()) {
    return "";
  }
  registry::CacheUse use = files->cacheUse();
  struct Row {
    std::string_view name, type, help;
    uint64_t value;
  };
  const Row rows[] = {
      {"tenon_cache_bytes", "gauge", "Size of the registry's files in this machine's disk cache.",
       use.used},
      {"tenon_cache_limit_bytes", "gauge", "Limit of that size: --cache-size.", use.limit},
      {"tenon_cache_hits_total", "counter", "Files that were in the cache when needed.", use.hits},
      {"tenon_cache_fetches_total", "counter", "Files fetched from the object store.", use.fetches},
      {"tenon_cache_fetched_bytes_total", "counter", "Bytes fetched from the object store.",
       use.fetchedBytes},
      {"tenon_cache_failures_total", "counter", "Fetches that failed.", use.failures},
      {"tenon_cache_evictions_total", "counter", "Files evicted from the cache.", use.evictions}};
  std::string text;
  for (const Row &row : rows) {
    appendMetricHead(text, row.name, row.type, row.help);
    text += fmt::format("{} {}\n", row.name, row.value);
  }
  return text;
}

} // namespace tenon::server

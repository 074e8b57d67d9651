// A thread for each library, but one for all while calls are measured.

#include "runtime/device/cuda/CudaCalls.h"

#include "support/threads/ThreadPool.h"

#include <chrono>
#include <vector>

namespace tenon::runtime::cuda {
namespace {

std::string keyOf(const LibraryCall &call) {
  std::string key(reinterpret_cast<const char *>(call.descriptor.data()), call.descriptor.size());
  key.append(reinterpret_cast<const char *>(call.sizes.data()), call.sizes.size_bytes());
  key.push_back(static_cast<char>(call.alignment));
  return key;
}

} // namespace

CudaCalls::CudaCalls(const CudaVariant &loaded, double seconds)
    : variant(loaded), measureSeconds(seconds) {}

Status CudaCalls::open() {
  if (handles) {
    return Status::ok();
  }
  library::Options options = variant.libraryOptions();
  if (measureSeconds > 0) {
    TENON_ASSIGN(meter, CudaMeter::create(variant.device()));
    options.meter = meter.get();
  }
  handles = library::makeHandles(options);
  return Status::ok();
}

void CudaCalls::prepareNow(LibraryCall &call) {
  variant.waitForLibrary(library::libraryOf(call.descriptor));
  call.status = open();
  if (!call.status) {
    return;
  }
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  Result<std::unique_ptr<library::Plan>> made =
      handles->prepare(call.descriptor, call.sizes, static_cast<size_t>(call.alignment));
  if (made) {
    call.plan = std::move(*made);
  } else {
    call.status = made.takeStatus();
  }
  if (measureSeconds <= 0) {
    return;
  }
  measureSeconds -= std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (measureSeconds <= 0) {
    // Calls that follow are prepared without measuring.
    handles.reset();
    meter.reset();
  }
}

Status CudaCalls::prepare(std::span<LibraryCall> calls) {
  std::map<std::string, LibraryCall *> firsts; // of calls that are equal
  std::map<const library::LibraryName *, std::vector<LibraryCall *>> missing;
  for (LibraryCall &call : calls) {
    std::string key = keyOf(call);
    call.plan = prepared[key].lock();
    if (!call.plan && firsts.emplace(key, &call).second) {
      // What is measured needs the GPU for itself.
      missing[measureSeconds > 0 ? nullptr : library::libraryOf(call.descriptor)].push_back(&call);
    }
  }
  if (missing.empty()) {
    return Status::ok();
  }
  TENON_TRY(open());
  std::vector<std::span<LibraryCall *>> groups;
  for (auto &[library, group] : missing) {
    groups.push_back(group);
  }
  TENON_ASSIGN(std::unique_ptr<ThreadPool> threads,
               ThreadPool::create(static_cast<unsigned>(groups.size())));
  threads->parallelFor(static_cast<int64_t>(groups.size()), [&](int64_t group, int64_t, unsigned) {
    ContextScope scope(*variant.device());
    for (LibraryCall *call : groups[static_cast<size_t>(group)]) {
      prepareNow(*call);
    }
  });
  for (auto &[key, call] : firsts) {
    prepared[key] = call->plan;
  }
  for (LibraryCall &call : calls) {
    if (!call.plan) {
      const LibraryCall &first = *firsts.at(keyOf(call));
      call.plan = first.plan;
      call.status = first.status;
    }
  }
  return Status::ok();
}

} // namespace tenon::runtime::cuda

// The vendor libraries as a CUDA runtime calls them: a descriptor of engine/LibraryAbi.h is
// prepared for concrete sizes into a plan, which then runs on streams. It relies on the loader
// only: nothing is opened before the first call that needs it.

#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::library {

struct LibraryName;

/// What measuring needs of a device; implemented by whoever holds the device.
class Meter {
public:
  virtual ~Meter() = default;
  /// Device memory of any content, 256-byte aligned, that lives as long as the meter.
  virtual Result<void *> allocate(size_t bytes) = 0;
  /// Device seconds of one `work(stream, round)`: the least of a few rounds counted from 0.
  virtual Result<double>
  seconds(const std::function<Status(void *stream, unsigned round)> &work) = 0;
};

struct Options {
  std::string folder; ///< looked in before all other places
  /// Bytes that a plan may ask for, unless there is none that does with them.
  size_t workspaceLimit = 32ull << 20;
  /// If given, `prepare` times the best `candidates` and takes the fastest.
  Meter *meter = nullptr;
  unsigned candidates = 8;
  /// Where chosen plans are kept for later processes, which then choose nothing; empty for nowhere.
  std::string cacheFolder;
  /// Number of the device, which a handle belongs to.
  int ordinal = 0;
  /// Names the device and its driver, so that kept plans are for them.
  std::string device;
};

/// A call with concrete sizes and a chosen algorithm. Not to be run by two threads at once.
class Plan {
public:
  virtual ~Plan() = default;
  /// Device bytes, 256-byte aligned, that `run` uses.
  virtual size_t workspaceBytes() const = 0;
  /// Puts the call on `stream` (a CUstream), in the order of buffers that the descriptor states.
  /// Neither allocates nor synchronizes, so a capturing stream may be given. Buffers have the
  /// alignment that was stated when the plan was made.
  virtual Status run(std::span<void *const> buffers, void *workspace, void *stream) = 0;
  /// The choice, for people: "cublasLt algorithm 66, tile 23, split-k 3".
  virtual std::string describe() const = 0;
};

/// The libraries' handles of one session or thread. Every call needs the device's primary context
/// to be current, and one thread at a time for each library. Plans may outlive it.
class Handles {
public:
  virtual ~Handles() = default;
  /// `call` and `sizes` as in engine/LibraryAbi.h; `alignment` in bytes of all buffers. Takes
  /// milliseconds (cuDNN: up to a second) and must not be called while capturing. Fails with
  /// LibraryMissing (names the package), LibraryUnsupported or LibraryFailed.
  virtual Result<std::unique_ptr<Plan>> prepare(Bytes call, std::span<const int64_t> sizes,
                                                size_t alignment = 16) = 0;
};

/// Opens nothing yet: each library is opened by the first `prepare` that needs it.
std::unique_ptr<Handles> makeHandles(const Options &options = {});

/// What `doctor` says of a library.
struct FoundLibrary {
  std::string name;    ///< "cuBLASLt"
  std::string path;    ///< the file that was taken; empty if none
  std::string version; ///< "13.1.0"; empty if none
  std::string problem; ///< why there is none and which package provides it; empty if found
};
std::vector<FoundLibrary> findLibraries(const std::string &folder = "");

/// The library that a descriptor needs (Loader.h); null if the descriptor is none.
const LibraryName *libraryOf(Bytes call);

} // namespace tenon::library

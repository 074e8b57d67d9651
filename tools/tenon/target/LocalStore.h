// Where the tuning store is, and what it knows of this machine.

#pragma once

#include "compiler/tuning/Store.h"
#include "compiler/tuning/TuningDatabase.h"
#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool {

/// The folder of --store, or that beside the compile cache. TN0105 where there is neither.
Result<std::string> storeFolder(const std::string &store);
/// Tells the user of lines that are no records, and of a torn one.
void noteFaults(const tuning::Records &records,
                const std::function<void(std::string_view)> &notice);

/// "Neoverse-V1, L2 1 MiB, L3 32 MiB: 8 threads, armv8.2-a"; a GPU's kernels have no threads of a
/// CPU.
std::string deviceText(const std::string &device, uint64_t threads, const std::string &level);

/// The CPU of this machine, and its GPU if `asksGpu` and the records need it: finding libraries
/// takes time.
std::vector<tuning::Device> localDevices(const std::vector<tuning::Record> &records, bool asksGpu);

/// What compilations on this machine ask, for a GPU too if `asksGpu`; null where there is no store.
/// One that cannot be read is an error where the user named it, else it is told and not used.
Result<std::shared_ptr<const tuning::TuningDatabase>>
localDatabase(const std::string &store, bool asksGpu,
              const std::function<void(std::string_view)> &notice);

} // namespace tenon::tool

// Where the tuning store is, and what it knows of this machine.

#pragma once

#include "compiler/tuning/Store.h"
#include "compiler/tuning/TuningDatabase.h"
#include "support/Result.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::tool {

/// The folder of --store, or that beside the compile cache. TN0105 where there is neither.
Result<std::string> storeFolder(const std::string &store);
/// Tells the user of lines that are no records, and of a torn one.
void noteFaults(const tuning::Records &records,
                const std::function<void(std::string_view)> &notice);

/// What compilations on this machine ask; null where there is no store. One that cannot be read is
/// an error where the user named it, else it is told and not used.
Result<std::shared_ptr<const tuning::TuningDatabase>>
localDatabase(const std::string &store, const std::function<void(std::string_view)> &notice);

} // namespace tenon::tool

// The GPUs of an engine's ranks: one for each, equal, with room for what it is to hold.

#pragma once

#include "engine/Reader.h"
#include "runtime/core/Engine.h"

#include <memory>
#include <vector>

namespace tenon::runtime {

/// GPUs for the ranks of variant `index`: that of the options and those behind it. DeviceNotFound
/// for one too few and for unequal ones, RunOutOfMemory where others have taken the memory that a
/// rank's weights need; each by the GPU's number.
Result<std::vector<std::shared_ptr<const cuda::CudaDevice>>>
openRankDevices(const engine::EngineFile &file, size_t index, const EngineOptions &options);

} // namespace tenon::runtime

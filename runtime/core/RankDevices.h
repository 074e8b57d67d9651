// The GPUs of an engine's ranks: one for each, equal, with room for what it is to hold.

#pragma once

#include "engine/Reader.h"
#include "runtime/core/Engine.h"

#include <memory>
#include <vector>

namespace tenon::runtime {

/// That of the options and those behind it. DeviceNotFound for one too few and for unequal ones.
Result<std::vector<std::shared_ptr<const cuda::CudaDevice>>>
openRankDevices(uint32_t ranks, const EngineOptions &options);

/// Whether ranks of variant `index` of a file have their GPUs: also RunOutOfMemory where others
/// have taken the memory that a rank's weights need, by the GPU's number.
Status checkRankDevices(const engine::EngineFile &file, size_t index, const EngineOptions &options);

} // namespace tenon::runtime

// Executables as bytes and back, by the library's own description of a finalized plan, so that a
// later process needs no heuristics and no compiling. Relies on cuDNN refusing what is not for it.

#pragma once

#include "runtime/library/cudnn/Graph.h"
#include "support/memory/ByteSpan.h"

namespace tenon::library::cudnn {

/// None if the library gives no description of one of them.
std::optional<std::vector<std::byte>> storePlans(std::span<const Executable *const> plans);

/// As many as were stored, with tensors among `knownIds`.
Result<std::vector<Executable>> restorePlans(const Api &api, Context *context, Bytes stored,
                                             std::span<const int64_t> knownIds);

} // namespace tenon::library::cudnn

// Short names for views of raw bytes, used at every border that moves data.

#pragma once

#include <cstddef>
#include <span>

namespace tenon {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

} // namespace tenon

// Descriptors of engine/LibraryAbi.h read from the bytes of an engine file. Relies on nothing about
// the bytes: what is not a valid descriptor is an error, never a value out of range.

#pragma once

#include "engine/LibraryAbi.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <span>

namespace tenon::library {

Result<engine::MatmulCall> decodeMatmul(Bytes call);
Result<engine::ScaledMatmulCall> decodeScaledMatmul(Bytes call);
Result<engine::ConvCall> decodeConv(Bytes call);
Result<engine::AttentionCall> decodeAttention(Bytes call);

/// EngineBadInstruction unless there are `count` sizes, none negative.
Status checkSizes(std::span<const int64_t> sizes, size_t count);

} // namespace tenon::library

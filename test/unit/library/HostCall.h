// What a library call means, computed on the host in double precision from engine/LibraryAbi.h
// alone: the truth for the runtime's libraries, for the compiler's descriptors, and on a GPU.

#pragma once

#include "engine/LibraryAbi.h"
#include "support/memory/ByteSpan.h"

#include <span>
#include <vector>

namespace tenon::library {

/// One buffer, as doubles.
using HostBuffer = std::vector<double>;

/// Elements of one buffer of a call; the last is the result.
std::vector<size_t> bufferElements(const engine::MatmulCall &call, std::span<const int64_t> sizes);
std::vector<size_t> bufferElements(const engine::ScaledMatmulCall &call,
                                   std::span<const int64_t> sizes);
std::vector<size_t> bufferElements(const engine::ConvCall &call, std::span<const int64_t> sizes);
std::vector<size_t> bufferElements(const engine::AttentionCall &call,
                                   std::span<const int64_t> sizes);

/// Writes the last buffer. Elements that the call does not write keep their value.
void runOnHost(const engine::MatmulCall &call, std::span<const int64_t> sizes,
               std::span<HostBuffer> buffers);
void runOnHost(const engine::ScaledMatmulCall &call, std::span<const int64_t> sizes,
               std::span<HostBuffer> buffers);
void runOnHost(const engine::ConvCall &call, std::span<const int64_t> sizes,
               std::span<HostBuffer> buffers);
void runOnHost(const engine::AttentionCall &call, std::span<const int64_t> sizes,
               std::span<HostBuffer> buffers);

/// The bytes of a descriptor.
template <typename Call> Bytes bytesOf(const Call &call) {
  return std::as_bytes(std::span(&call, 1));
}

/// The type of a buffer of a call, by its number.
template <typename Call> DType bufferType(const Call &call, size_t) { return call.type; }
inline DType bufferType(const engine::ScaledMatmulCall &call, size_t buffer) {
  return buffer < 2 ? DType::F8E4M3FN : call.type;
}

/// Between doubles and a type of the libraries (F32, F64, F16, BF16; rounded to nearest). F8E4M3FN
/// is exact numbers of its normal range and zero.
std::vector<std::byte> encode(DType type, std::span<const double> values);
HostBuffer decode(DType type, Bytes bytes);

} // namespace tenon::library

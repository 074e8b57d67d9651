// The messages between the front and a worker besides runs: loading, unloading, shared buffers.
// They go over a Unix socket that keeps their borders (SOCK_SEQPACKET) and carries descriptors.

#pragma once

#include "server/ipc/Descriptor.h"
#include "support/ErrorNumber.h"
#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// Descriptors that a worker process starts with.
inline constexpr int kWorkerSocket = 3;
inline constexpr int kWorkerDoneEvent = 4;

struct ControlMessage {
  enum class Kind : uint32_t {
    // To the worker.
    Buffer,     ///< number `key`, `value` bytes; descriptor
    DropBuffer, ///< number `key`
    Load, ///< version `key`, `value` threads a run; text: encodeLoad; descriptors: engine file,
          ///< text socket, then request slot and eventfd of each instance, then the draft model
    LoadOnGpu, ///< as Load, of an engine that is to run on the worker's GPU
    Unload,    ///< version `key`
    // To the front.
    Loaded,     ///< version `key`; text: encodeModelInfo
    LoadFailed, ///< version `key`, `value` the error's number; text: encodeError
    Unloaded,   ///< version `key`
    Ending,     ///< the worker ends because of version `key`; `value`, text: as LoadFailed
  };
  Kind kind = Kind::Buffer;
  uint64_t key = 0;
  uint64_t value = 0;
  std::string text;
  std::vector<Descriptor> descriptors;
};

/// Sends without waiting; TN0902 when the other side has gone or lets messages pile up. Descriptors
/// are copied to it.
Status sendControl(int socket, const ControlMessage &message);
/// Receives one message, waiting only if `waits`. `*isEnd` when the other side has gone; `*isNone`
/// when nothing is there.
Status receiveControl(int socket, bool waits, ControlMessage &message, bool *isEnd, bool *isNone);

/// An error's message and hint, as `text` of a message; its number goes beside it.
std::string encodeError(std::string_view message, std::string_view hint);
Status decodeError(uint64_t number, std::string_view text);

} // namespace tenon::server

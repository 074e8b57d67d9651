// A stream of a GPU and the events on it, owned. Their context is current where they are used.

#pragma once

#include "runtime/device/cuda/CudaDevice.h"

#include <memory>
#include <string_view>

namespace tenon::runtime::cuda {

class CudaStream {
public:
  explicit CudaStream(std::shared_ptr<const CudaDevice> owner) : device(std::move(owner)) {}
  ~CudaStream();
  CudaStream(const CudaStream &) = delete;
  CudaStream &operator=(const CudaStream &) = delete;

  Status open();
  StreamHandle handle() const { return stream; }
  /// Waits for all that is on the stream.
  Status wait(std::string_view doing) const;

private:
  std::shared_ptr<const CudaDevice> device;
  StreamHandle stream = nullptr;
};

class CudaEvent {
public:
  explicit CudaEvent(std::shared_ptr<const CudaDevice> owner) : device(std::move(owner)) {}
  ~CudaEvent();
  CudaEvent(const CudaEvent &) = delete;
  CudaEvent &operator=(const CudaEvent &) = delete;

  Status open(unsigned flags);
  EventHandle handle() const { return event; }
  Status record(StreamHandle stream, std::string_view doing) const;
  /// Waits for what was on the stream when it was recorded; at once when it never was.
  Status wait(std::string_view doing) const;
  /// Seconds between two events, both complete and made for timing.
  static Result<double> secondsBetween(const CudaEvent &start, const CudaEvent &end);

private:
  std::shared_ptr<const CudaDevice> device;
  EventHandle event = nullptr;
};

} // namespace tenon::runtime::cuda

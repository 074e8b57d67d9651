// Thin ownership over the driver's functions.

#include "runtime/device/cuda/CudaStream.h"

namespace tenon::runtime::cuda {

CudaStream::~CudaStream() {
  if (stream) {
    ContextScope scope(*device);
    device->driver().streamDestroy(stream);
  }
}

Status CudaStream::open() {
  const CudaDriver &driver = device->driver();
  return driver.check(driver.streamCreate(&stream, kStreamNonBlocking), "making a stream");
}

Status CudaStream::wait(std::string_view doing) const {
  const CudaDriver &driver = device->driver();
  return driver.check(driver.streamSynchronize(stream), doing);
}

CudaEvent::~CudaEvent() {
  if (event) {
    ContextScope scope(*device);
    device->driver().eventDestroy(event);
  }
}

Status CudaEvent::open(unsigned flags) {
  const CudaDriver &driver = device->driver();
  return driver.check(driver.eventCreate(&event, flags), "making an event");
}

Status CudaEvent::record(StreamHandle stream, std::string_view doing) const {
  const CudaDriver &driver = device->driver();
  return driver.check(driver.eventRecord(event, stream), doing);
}

Status CudaEvent::wait(std::string_view doing) const {
  const CudaDriver &driver = device->driver();
  return driver.check(driver.eventSynchronize(event), doing);
}

Result<double> CudaEvent::secondsBetween(const CudaEvent &start, const CudaEvent &end) {
  const CudaDriver &driver = start.device->driver();
  float milliseconds = 0;
  TENON_TRY(driver.check(driver.eventElapsedTime(&milliseconds, start.event, end.event),
                         "reading the time of a run"));
  return static_cast<double>(milliseconds) / 1000;
}

} // namespace tenon::runtime::cuda

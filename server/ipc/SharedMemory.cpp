// memfd_create, seals and mmap.

#include "server/ipc/SharedMemory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace tenon::server {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

} // namespace

Result<std::unique_ptr<SharedMemory>> SharedMemory::create(uint64_t bytes) {
  Descriptor fd(memfd_create("tenon-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  bool isMade = fd.isOpen() && ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0 &&
                fcntl(fd.get(), F_ADD_SEALS, kSeals) == 0;
  if (!isMade) {
    return Status::error(ErrorId::OutOfMemory, "memory cannot be shared with a worker process");
  }
  TENON_ASSIGN(std::unique_ptr<SharedMemory> memory, map(fd, bytes));
  memory->fd = std::move(fd);
  return memory;
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::open(Descriptor descriptor, uint64_t bytes) {
  struct stat info = {};
  bool isSealed = (fcntl(descriptor.get(), F_GET_SEALS) & kSeals) == kSeals;
  if (!isSealed || fstat(descriptor.get(), &info) != 0 ||
      static_cast<uint64_t>(info.st_size) != bytes) {
    return Status::error(ErrorId::InternalError, "shared memory has the wrong size or lacks seals");
  }
  return map(descriptor, bytes);
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::map(const Descriptor &descriptor,
                                                        uint64_t bytes) {
  void *place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (place == MAP_FAILED) {
    return Status::error(ErrorId::OutOfMemory, "shared memory cannot be mapped");
  }
  return std::unique_ptr<SharedMemory>(
      new SharedMemory(MutableBytes(static_cast<std::byte *>(place), bytes)));
}

SharedMemory::~SharedMemory() { munmap(mapped.data(), mapped.size()); }

} // namespace tenon::server

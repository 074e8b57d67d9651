// A descriptor of cuDNN's backend, owned. Relies on the library that made it staying open.

#pragma once

#include "runtime/library/cudnn/CudnnApi.h"

#include <span>
#include <utility>
#include <vector>

namespace tenon::library::cudnn {

class Descriptor {
public:
  static Result<Descriptor> create(const Api &api, DescriptorType type);
  Descriptor() = default;
  Descriptor(Descriptor &&other) noexcept { *this = std::move(other); }
  Descriptor &operator=(Descriptor &&other) noexcept;
  ~Descriptor();

  Status set(Attribute name, AttributeType type, int64_t count, const void *values);
  Status set(Attribute name, DataType type);
  Status set(Attribute name, int64_t value) { return set(name, std::span(&value, 1)); }
  Status set(Attribute name, std::span<const int64_t> values);
  Status set(Attribute name, const Descriptor &other);
  /// The status code of the library, to tell what is not supported from what failed.
  int tryFinalize();
  Status finalize();

  /// The number of values that were there; at most `room` of them are written.
  Result<int64_t> get(Attribute name, AttributeType type, int64_t room, void *values) const;

  RawDescriptor raw() const { return descriptor; }

private:
  Descriptor(const Api *functions, RawDescriptor made) : api(functions), descriptor(made) {}

  const Api *api = nullptr;
  RawDescriptor descriptor = nullptr;
};

/// LibraryUnsupported or LibraryFailed with the library's text; ok for kSuccess.
Status statusOf(const Api &api, int status, std::string_view function);

} // namespace tenon::library::cudnn

// Typed access to attributes. Relies on enumerations of the library being ints in memory.

#include "runtime/library/cudnn/Descriptor.h"

#include "support/text/Text.h"

namespace tenon::library::cudnn {

Status statusOf(const Api &api, int status, std::string_view function) {
  if (status == kSuccess) {
    return Status::ok();
  }
  bool isUnsupported = status >= kNotSupported && status < kNotSupportedEnd;
  return Status::error(
      isUnsupported ? ErrorId::LibraryUnsupported : ErrorId::LibraryFailed,
      strCat("cuDNN ", versionOf(api), ": ", function, ": ", api.getErrorString(status)));
}

Result<Descriptor> Descriptor::create(const Api &api, DescriptorType type) {
  RawDescriptor made = nullptr;
  TENON_TRY(statusOf(api, api.createDescriptor(static_cast<int>(type), &made),
                     "cudnnBackendCreateDescriptor"));
  return Descriptor(&api, made);
}

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
  std::swap(api, other.api);
  std::swap(descriptor, other.descriptor);
  return *this;
}

Descriptor::~Descriptor() {
  if (descriptor) {
    api->destroyDescriptor(descriptor);
  }
}

Status Descriptor::set(Attribute name, AttributeType type, int64_t count, const void *values) {
  int status =
      api->setAttribute(descriptor, static_cast<int>(name), static_cast<int>(type), count, values);
  return statusOf(*api, status,
                  status == kSuccess
                      ? std::string()
                      : strCat("cudnnBackendSetAttribute of ", static_cast<int>(name)));
}

Status Descriptor::set(Attribute name, DataType type) {
  return set(name, AttributeType::DataType, 1, &type);
}

Status Descriptor::set(Attribute name, std::span<const int64_t> values) {
  return set(name, AttributeType::Int64, static_cast<int64_t>(values.size()), values.data());
}

Status Descriptor::set(Attribute name, const Descriptor &other) {
  return set(name, AttributeType::Descriptor, 1, &other.descriptor);
}

int Descriptor::tryFinalize() { return api->finalize(descriptor); }

Status Descriptor::finalize() { return statusOf(*api, tryFinalize(), "cudnnBackendFinalize"); }

Result<int64_t> Descriptor::get(Attribute name, AttributeType type, int64_t room,
                                void *values) const {
  int64_t count = 0;
  TENON_TRY(statusOf(*api,
                     api->getAttribute(descriptor, static_cast<int>(name), static_cast<int>(type),
                                       room, &count, values),
                     "cudnnBackendGetAttribute"));
  return count;
}

} // namespace tenon::library::cudnn

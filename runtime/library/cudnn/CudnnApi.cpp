// Finds the functions of cuDNN by name. Relies on libcudnn.so.9 being the one that opens its other
// parts.

#include "runtime/library/cudnn/CudnnApi.h"

namespace tenon::library::cudnn {

Result<Api> openApi(const std::string &folder) {
  TENON_ASSIGN(OpenLibrary library, openLibrary(kCudnn, folder));
  Api api{};
  api.library = library;
  const char *missing = nullptr;
  auto find = [&](const char *name, auto &function) {
    if (!resolve(library, name, function)) {
      missing = name;
    }
  };
  find("cudnnCreate", api.create);
  find("cudnnDestroy", api.destroy);
  find("cudnnSetStream", api.setStream);
  find("cudnnGetVersion", api.getVersion);
  find("cudnnGetErrorString", api.getErrorString);
  find("cudnnBackendCreateDescriptor", api.createDescriptor);
  find("cudnnBackendDestroyDescriptor", api.destroyDescriptor);
  find("cudnnBackendFinalize", api.finalize);
  find("cudnnBackendSetAttribute", api.setAttribute);
  find("cudnnBackendGetAttribute", api.getAttribute);
  find("cudnnBackendExecute", api.execute);
  if (missing) {
    return lacksSymbol(kCudnn, library, missing);
  }
  return api;
}

std::string versionOf(const Api &api) { return versionText(api.getVersion()); }

} // namespace tenon::library::cudnn

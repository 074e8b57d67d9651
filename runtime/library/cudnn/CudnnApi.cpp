// Finds the functions of cuDNN by name. Relies on libcudnn.so.9 being the one that opens its other
// parts.

#include "runtime/library/cudnn/CudnnApi.h"

namespace tenon::library::cudnn {

Result<Api> openApi(const std::string &folder) {
  Api api{};
  TENON_ASSIGN(api.library, openLibrary(kCudnn, folder));
  FunctionFinder functions(kCudnn, api.library);
  functions.find("cudnnCreate", api.create);
  functions.find("cudnnSetStream", api.setStream);
  functions.find("cudnnGetVersion", api.getVersion);
  functions.find("cudnnGetErrorString", api.getErrorString);
  functions.find("cudnnBackendCreateDescriptor", api.createDescriptor);
  functions.find("cudnnBackendDestroyDescriptor", api.destroyDescriptor);
  functions.find("cudnnBackendFinalize", api.finalize);
  functions.find("cudnnBackendSetAttribute", api.setAttribute);
  functions.find("cudnnBackendGetAttribute", api.getAttribute);
  functions.find("cudnnBackendExecute", api.execute);
  TENON_TRY(functions.status());
  return api;
}

std::string versionOf(const Api &api) { return versionText(api.getVersion()); }

} // namespace tenon::library::cudnn

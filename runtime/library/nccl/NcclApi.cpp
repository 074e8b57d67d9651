// Finds the functions of NCCL by name. Relies on the loader; a library that lacks one of them is
// too old.

#include "runtime/library/nccl/NcclApi.h"

#include "support/text/Text.h"

#include <cstdlib>

namespace tenon::library::nccl {

Result<Api> openApi(const std::string &folder) {
  // The only switch there is for multicast over NVLink: a fault in it can put all GPUs of a host
  // out of service.
  setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/1);
  Api api{};
  TENON_ASSIGN(api.library, openLibrary(kNccl, folder));
  FunctionFinder functions(kNccl, api.library);
  functions.find("ncclGetVersion", api.getVersion);
  functions.find("ncclGetErrorString", api.getErrorString);
  functions.find("ncclGetLastError", api.getLastError);
  functions.find("ncclCommInitAll", api.commInitAll);
  functions.find("ncclCommAbort", api.commAbort);
  functions.find("ncclAllReduce", api.allReduce);
  functions.find("ncclAllGather", api.allGather);
  TENON_TRY(functions.status());
  return api;
}

std::string versionOf(const Api &api) {
  int number = 0;
  return api.getVersion(&number) == kSuccess ? versionText(static_cast<size_t>(number)) : "";
}

} // namespace tenon::library::nccl

// Finds the functions of cuBLASLt by name. Relies on the loader; a library that lacks one of them
// is too old.

#include "runtime/library/cublaslt/CublasLtApi.h"

namespace tenon::library::cublaslt {

Result<Api> openApi(const std::string &folder) {
  Api api{};
  TENON_ASSIGN(api.library, openLibrary(kCublasLt, folder));
  FunctionFinder functions(kCublasLt, api.library);
  functions.find("cublasLtCreate", api.create);
  functions.find("cublasLtGetVersion", api.getVersion);
  functions.find("cublasLtGetStatusName", api.getStatusName);
  functions.find("cublasLtMatrixLayoutCreate", api.layoutCreate);
  functions.find("cublasLtMatrixLayoutDestroy", api.layoutDestroy);
  functions.find("cublasLtMatrixLayoutSetAttribute", api.layoutSet);
  functions.find("cublasLtMatmulDescCreate", api.descCreate);
  functions.find("cublasLtMatmulDescDestroy", api.descDestroy);
  functions.find("cublasLtMatmulDescSetAttribute", api.descSet);
  functions.find("cublasLtMatmulPreferenceCreate", api.preferenceCreate);
  functions.find("cublasLtMatmulPreferenceDestroy", api.preferenceDestroy);
  functions.find("cublasLtMatmulPreferenceSetAttribute", api.preferenceSet);
  functions.find("cublasLtMatmulAlgoGetHeuristic", api.getHeuristic);
  functions.find("cublasLtMatmulAlgoConfigGetAttribute", api.getAlgoConfig);
  functions.find("cublasLtMatmul", api.matmul);
  TENON_TRY(functions.status());
  return api;
}

std::string versionOf(const Api &api) { return versionText(api.getVersion()); }

} // namespace tenon::library::cublaslt

// Finds the functions of cuBLASLt by name. Relies on the loader; a library that lacks one of them
// is too old.

#include "runtime/library/cublaslt/CublasLtApi.h"

namespace tenon::library::cublaslt {

Result<Api> openApi(const std::string &folder) {
  TENON_ASSIGN(OpenLibrary library, openLibrary(kCublasLt, folder));
  Api api{};
  api.library = library;
  const char *missing = nullptr;
  auto find = [&](const char *name, auto &function) {
    if (!resolve(library, name, function)) {
      missing = name;
    }
  };
  find("cublasLtCreate", api.create);
  find("cublasLtDestroy", api.destroy);
  find("cublasLtGetVersion", api.getVersion);
  find("cublasLtGetStatusName", api.getStatusName);
  find("cublasLtMatrixLayoutCreate", api.layoutCreate);
  find("cublasLtMatrixLayoutDestroy", api.layoutDestroy);
  find("cublasLtMatrixLayoutSetAttribute", api.layoutSet);
  find("cublasLtMatmulDescCreate", api.descCreate);
  find("cublasLtMatmulDescDestroy", api.descDestroy);
  find("cublasLtMatmulDescSetAttribute", api.descSet);
  find("cublasLtMatmulPreferenceCreate", api.preferenceCreate);
  find("cublasLtMatmulPreferenceDestroy", api.preferenceDestroy);
  find("cublasLtMatmulPreferenceSetAttribute", api.preferenceSet);
  find("cublasLtMatmulAlgoGetHeuristic", api.getHeuristic);
  find("cublasLtMatmulAlgoConfigGetAttribute", api.getAlgoConfig);
  find("cublasLtMatmul", api.matmul);
  if (missing) {
    return lacksSymbol(kCublasLt, library, missing);
  }
  return api;
}

std::string versionOf(const Api &api) { return versionText(api.getVersion()); }

} // namespace tenon::library::cublaslt

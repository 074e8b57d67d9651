// Where vendor libraries are installed, and opening them. Relies on the dynamic loader; a library
// that was opened stays open, because those of CUDA cannot be closed safely.

#pragma once

#include "support/Result.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::library {

/// A library by its names and by the package that provides it.
struct LibraryName {
  std::string_view name;                   ///< "cuBLASLt", for people
  std::span<const std::string_view> files; ///< sonames, the best first
  std::string_view package;                ///< of pip
  /// Beside it; it opens them when they are called.
  std::span<const std::string_view> parts = {};
};

inline constexpr std::string_view kCublasLtFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
inline constexpr std::string_view kCudnnFiles[] = {"libcudnn.so.9"};
inline constexpr std::string_view kCudnnParts[] = {
    "libcudnn_graph.so.9", "libcudnn_engines_precompiled.so.9", "libcudnn_heuristic.so.9",
    "libcudnn_engines_runtime_compiled.so.9"};
inline constexpr std::string_view kNcclFiles[] = {"libnccl.so.2"};
inline constexpr LibraryName kNccl = {"NCCL", kNcclFiles, "nvidia-nccl-cu13"};
inline constexpr LibraryName kCublasLt = {"cuBLASLt", kCublasLtFiles, "nvidia-cublas"};
inline constexpr LibraryName kCudnn = {"cuDNN", kCudnnFiles, "nvidia-cudnn-cu13", kCudnnParts};

struct OpenLibrary {
  void *handle = nullptr;
  std::string path; ///< the file that the loader took
};

/// Opens the first of: `folder`, the loader's path, the toolkit, the wheels of the active Python.
Result<OpenLibrary> openLibrary(const LibraryName &library, const std::string &folder);

/// Opens what the library itself would open at its first call. Needs no context of a GPU.
void openParts(const LibraryName &library, const OpenLibrary &open);

/// The folders that are searched after the loader's path.
std::vector<std::string> installedFolders();

void *findSymbol(const OpenLibrary &library, const char *symbol);

/// "13.1.0" of 130100, as cuBLASLt from 12 and cuDNN from 9 number themselves.
std::string versionText(size_t number);

/// "libcudnn.so.9 lacks cudnnBackendExecute", as a LibraryMissing.
Status lacksSymbol(const LibraryName &library, const OpenLibrary &open, std::string_view symbol);

/// Finds the functions of an open library; what is missing is told at the end.
class FunctionFinder {
public:
  FunctionFinder(const LibraryName &name, const OpenLibrary &open) : library(name), open(open) {}

  template <typename Function> void find(const char *symbol, Function *&function) {
    function = reinterpret_cast<Function *>(need(symbol));
  }
  Status status() const { return missing ? lacksSymbol(library, open, missing) : Status::ok(); }

private:
  void *need(const char *symbol);

  const LibraryName &library;
  const OpenLibrary &open;
  const char *missing = nullptr;
};

} // namespace tenon::library

// The part of NCCL's C interface that Tenon calls, declared here so that building needs no header
// of NVIDIA. Names and values are those of nccl.h of NCCL 2; they are part of the library's binary
// interface.

#pragma once

#include "runtime/library/Loader.h"

#include <cstddef>

namespace tenon::library::nccl {

struct Comm;

inline constexpr int kSuccess = 0;
inline constexpr int kSum = 0;

enum DataType : int { kInt8 = 0, kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9 };

/// The functions, in the order of the list in NcclApi.cpp.
struct Api {
  OpenLibrary library;
  int (*getVersion)(int *);
  const char *(*getErrorString)(int);
  const char *(*getLastError)(Comm *);
  int (*commInitAll)(Comm **, int count, const int *devices);
  int (*commAbort)(Comm *);
  int (*allReduce)(const void *from, void *to, size_t count, int type, int operation, Comm *,
                   void *stream);
  int (*allGather)(const void *from, void *to, size_t count, int type, Comm *, void *stream);
};

/// Opens the library and finds every function.
Result<Api> openApi(const std::string &folder);

/// "2.28.9".
std::string versionOf(const Api &api);

} // namespace tenon::library::nccl

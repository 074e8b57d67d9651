// The kernels of kernels.ptx as C++ functions, for the stand-in of the driver.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::test {

struct KernelCall {
  unsigned grid = 0;
  unsigned block = 0;
  unsigned sharedBytes = 0;
  std::vector<uint64_t> arguments;
};

/// A kernel of kernels.ptx: how many arguments it takes, which of them are pointers, what it does.
struct KernelInfo {
  const char *name;
  size_t pointers;
  size_t arguments;
  int (*run)(const KernelCall &call);
};

/// Null for a name that kernels.ptx does not have.
const KernelInfo *findKernel(std::string_view name);

} // namespace tenon::test

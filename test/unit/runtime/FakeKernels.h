// The kernels of kernels.ptx as C++ functions, for the stand-in of the driver.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::test {

/// As a real driver calls a fault of a kernel.
constexpr int kIllegalAddress = 700;

/// What the stand-in encodes a tensor map as.
struct FakeTensorMap {
  uint64_t address, columns, rows, rowBytes;
};

struct KernelCall {
  unsigned grid = 0;
  unsigned block = 0;
  unsigned sharedBytes = 0;
  std::vector<uint64_t> arguments;
  std::vector<FakeTensorMap> maps;
};

/// A kernel of kernels.ptx: how many arguments it takes, which of them are pointers, what it does,
/// and how many tensor maps it takes behind them.
struct KernelInfo {
  std::string name;
  size_t pointers;
  size_t arguments;
  std::function<int(const KernelCall &)> run;
  size_t maps = 0;
};

/// Null for a name that kernels.ptx does not have.
const KernelInfo *findKernel(std::string_view name);

} // namespace tenon::test

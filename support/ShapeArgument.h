// The sizes that a user gives for inputs, as `--shape` and `--optimize-for` have them. A constant
// is a range whose ends are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct ShapeArgument {
  struct Dim {
    int64_t min = 1;
    int64_t max = 1;
    bool keep = false;
  };
  std::string input;
  std::vector<Dim> dims;
};

/// One `--optimize-for`: `8` for the only free size, or the dimensions of inputs,
/// `x:8x128,mask:8x128`.
struct SizesArgument {
  std::vector<ShapeArgument> shapes;
  std::optional<int64_t> only;
};

} // namespace tenon

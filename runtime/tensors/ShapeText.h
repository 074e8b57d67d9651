// Reads the shapes of the command line: `name:1x3x224x224`, with ranges `name:[1..32]x128` and `?`
// for a dimension that stays as the model has it.

#pragma once

#include "support/Result.h"

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

/// The name ends at the last colon, since names may hold colons themselves.
Result<ShapeArgument> parseShapeArgument(const std::string &text);

/// Several, each of another input.
Result<std::vector<ShapeArgument>> parseShapeArguments(const std::vector<std::string> &texts);

/// One `--optimize-for`: `8` for the only free size, or the dimensions of inputs,
/// `x:8x128,mask:8x128`.
struct SizesArgument {
  std::vector<ShapeArgument> shapes;
  std::optional<int64_t> only;
};

/// `1,8,32` is three of them.
Result<std::vector<SizesArgument>> parseSizesArguments(const std::vector<std::string> &texts);

/// `--fill name:low..high`: the values of a seeded input, both ends included.
struct FillArgument {
  std::string input;
  double low = 0;
  double high = 1;
};

Result<FillArgument> parseFillArgument(const std::string &text);

} // namespace tenon

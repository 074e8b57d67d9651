// Reads the shapes of the command line: `name:1x3x224x224`, with ranges `name:[1..32]x128` and `?`
// for a dimension that stays as the model has it.

#pragma once

#include "support/Result.h"
#include "support/ShapeArgument.h"

#include <string>
#include <vector>

namespace tenon {

/// The name ends at the last colon, since names may hold colons themselves.
Result<ShapeArgument> parseShapeArgument(const std::string &text);

/// Several, each of another input.
Result<std::vector<ShapeArgument>> parseShapeArguments(const std::vector<std::string> &texts);

/// `1,8,32` is three of them.
Result<std::vector<SizesArgument>> parseSizesArguments(const std::vector<std::string> &texts);

/// `--fill name:low..high`: the values of a seeded input, both ends included.
struct FillArgument {
  std::string input;
  double low = 0;
  double high = 1;
};

Result<FillArgument> parseFillArgument(const std::string &text);

/// `--session name=value`: a symbol that sizes state.
struct SessionArgument {
  std::string symbol;
  int64_t value = 0;
};

Result<SessionArgument> parseSessionArgument(const std::string &text);

} // namespace tenon

// Implements the reading of shapes and value ranges; every refusal names the part that is wrong.

#include "runtime/tensors/ShapeText.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace tenon {
namespace {

Status badShape(const std::string &text, std::string_view what) {
  return Status::error(
      ErrorId::BadArgument, fmt::format("--shape {}: {}", text, what),
      "write whole numbers, ranges and ?: name:1x3x224x224, name:[1..32]x128, name:?x128");
}

template <typename T> std::optional<T> parseNumber(std::string_view text) {
  T value = 0;
  std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<ShapeArgument::Dim> parseDim(std::string_view text) {
  if (text == "?") {
    return ShapeArgument::Dim{1, 1, true};
  }
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
    size_t dots = text.find("..");
    if (dots == std::string_view::npos) {
      return std::nullopt;
    }
    std::optional<int64_t> low = parseNumber<int64_t>(text.substr(0, dots));
    std::optional<int64_t> high = parseNumber<int64_t>(text.substr(dots + 2));
    if (!low || !high || *low < 0 || *low > *high) {
      return std::nullopt;
    }
    return ShapeArgument::Dim{*low, *high, false};
  }
  std::optional<int64_t> size = parseNumber<int64_t>(text);
  if (!size || *size < 0) {
    return std::nullopt;
  }
  return ShapeArgument::Dim{*size, *size, false};
}

} // namespace

Result<ShapeArgument> parseShapeArgument(const std::string &text) {
  size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return badShape(text, "there is no 'name:' before the dimensions");
  }
  ShapeArgument shape;
  shape.input = text.substr(0, colon);
  std::string_view rest = std::string_view(text).substr(colon + 1);
  while (!rest.empty()) {
    size_t cross = rest.find('x');
    std::string_view part = rest.substr(0, cross);
    std::optional<ShapeArgument::Dim> dim = parseDim(part);
    if (!dim) {
      return badShape(text, fmt::format("'{}' is not a dimension", part));
    }
    shape.dims.push_back(*dim);
    rest = cross == std::string_view::npos ? "" : rest.substr(cross + 1);
    if (rest.empty() && cross != std::string_view::npos) {
      return badShape(text, "a dimension is missing at the end");
    }
  }
  return shape;
}

Result<std::vector<ShapeArgument>> parseShapeArguments(const std::vector<std::string> &texts) {
  std::vector<ShapeArgument> shapes;
  for (const std::string &text : texts) {
    TENON_ASSIGN(ShapeArgument shape, parseShapeArgument(text));
    for (const ShapeArgument &other : shapes) {
      if (other.input == shape.input) {
        return badShape(text, fmt::format("there is already a --shape for '{}'", shape.input));
      }
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

Result<std::vector<SizesArgument>> parseSizesArguments(const std::vector<std::string> &texts) {
  std::vector<SizesArgument> all;
  for (const std::string &text : texts) {
    SizesArgument shapes;
    for (std::string_view rest = text; !rest.empty();) {
      size_t comma = std::min(rest.find(','), rest.size());
      std::string part(rest.substr(0, comma));
      rest = rest.substr(std::min(comma + 1, rest.size()));
      std::optional<ShapeArgument::Dim> size = parseDim(part);
      if (size && !size->keep && size->min == size->max) {
        all.push_back({{}, size->min});
        continue;
      }
      TENON_ASSIGN(ShapeArgument shape, parseShapeArgument(part));
      shapes.shapes.push_back(std::move(shape));
    }
    if (!shapes.shapes.empty()) {
      all.push_back(std::move(shapes));
    }
  }
  return all;
}

Result<FillArgument> parseFillArgument(const std::string &text) {
  size_t colon = text.rfind(':');
  size_t dots = colon == std::string::npos ? colon : text.find("..", colon);
  if (dots == std::string::npos || colon == 0) {
    return Status::error(ErrorId::BadArgument, fmt::format("--fill {}: not a range", text),
                         "write name:0..30521");
  }
  std::string_view all = text;
  std::optional<double> low = parseNumber<double>(all.substr(colon + 1, dots - colon - 1));
  std::optional<double> high = parseNumber<double>(all.substr(dots + 2));
  if (!low || !high || !std::isfinite(*low) || !std::isfinite(*high) || *low > *high) {
    return Status::error(ErrorId::BadArgument, fmt::format("--fill {}: not a range", text),
                         "write name:0..30521");
  }
  return FillArgument{text.substr(0, colon), *low, *high};
}

Result<SessionArgument> parseSessionArgument(const std::string &text) {
  size_t sign = text.rfind('=');
  std::optional<int64_t> value;
  if (sign != std::string::npos && sign > 0) {
    value = parseNumber<int64_t>(std::string_view(text).substr(sign + 1));
  }
  if (!value) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("--session {} is not a symbol and a whole number", text),
                         "write it as SYMBOL=NUMBER: pages=64");
  }
  return SessionArgument{text.substr(0, sign), *value};
}

} // namespace tenon

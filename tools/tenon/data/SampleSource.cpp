// Implements the checks of types and dims that all forms of data share. A hint names the call of
// NumPy that mends the data where there is one.

#include "tools/tenon/data/SampleSource.h"

#include "support/Shape.h"

#include <algorithm>

namespace tenon::tool {
namespace {

std::string numpyName(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return "float32";
  case DType::F64:
    return "float64";
  case DType::F16:
    return "float16";
  case DType::I8:
    return "int8";
  case DType::I16:
    return "int16";
  case DType::I32:
    return "int32";
  case DType::I64:
    return "int64";
  case DType::U8:
    return "uint8";
  case DType::Bool:
    return "bool";
  default:
    return std::string(nameOf(dtype));
  }
}

bool fits(std::span<const int64_t> dims, std::span<const int64_t> wanted) {
  return std::ranges::equal(dims, wanted,
                            [](int64_t dim, int64_t want) { return want < 0 || dim == want; });
}

/// What to do about dims that do not fit: a transposition where channels stand at the other end.
std::string hintOfDims(const WantedInput &input, std::span<const int64_t> row,
                       std::span<const int64_t> wanted) {
  if (row.size() == 3 && wanted.size() == 3) {
    if (fits(std::vector<int64_t>{row[2], row[0], row[1]}, wanted)) {
      return fmt::format("the array has channels last (NHWC), but '{}' expects them first (NCHW): "
                         "numpy.ascontiguousarray(x.transpose(0, 3, 1, 2))",
                         input.name);
    }
    if (fits(std::vector<int64_t>{row[1], row[2], row[0]}, wanted)) {
      return fmt::format("the array has channels first (NCHW), but '{}' expects them last (NHWC): "
                         "numpy.ascontiguousarray(x.transpose(0, 2, 3, 1))",
                         input.name);
    }
  }
  return "dim 0 of an array counts the samples; the others must be the input's";
}

} // namespace

Status badData(std::string_view message, std::string_view hint) {
  return Status::error(ErrorId::BadDataset, message, hint);
}

bool isLabelName(std::string_view name) {
  return name == "labels" || name == "label" || name == "targets" || name == "y";
}

Status checkRows(const WantedInput &input, DType dtype, std::span<const int64_t> row,
                 const std::string &where) {
  bool isHeldAsBytes = isLowBit(input.dtype) && dtype == DType::U8;
  if (dtype != input.dtype && !isHeldAsBytes) {
    bool arePixels = dtype == DType::U8 && isFloating(input.dtype);
    std::string hint =
        arePixels ? "if these are pixels, scale them as in training, for example "
                    "(x.astype(numpy.float32) / 255 - mean) / std"
                  : fmt::format("convert the array: x.astype(numpy.{})", numpyName(input.dtype));
    return Status::error(ErrorId::WrongTensorType,
                         fmt::format("{} is {}, but the input '{}' is {}", where, nameOf(dtype),
                                     input.name, nameOf(input.dtype)),
                         hint);
  }
  std::span<const int64_t> wanted = input.dims;
  bool isWhole = row.size() == wanted.size();
  if (!isWhole && row.size() + 1 == wanted.size()) {
    wanted = wanted.subspan(1);
  }
  if (row.size() == wanted.size() && fits(row, wanted)) {
    return Status::ok();
  }
  return badData(fmt::format("{} has samples of {}, but the input '{}' is {}", where,
                             formatDims(row), input.name, formatDims(input.dims)),
                 hintOfDims(input, row, wanted));
}

} // namespace tenon::tool

// Implements seeded values by the generator of models/README.md, and the choice of free dimensions.

#include "runtime/tensors/Seeded.h"

#include "engine/Constraints.h"
#include "support/LikelySize.h"
#include "support/Shape.h"
#include "support/text/NearestName.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

using engine::Plan;
using engine::Port;

uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

uint64_t fnv1a64(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (unsigned char byte : text) {
    hash = (hash ^ byte) * 0x100000001B3;
  }
  return hash;
}

/// The number in [0, 1) that belongs to an element: 24 bits, as in models/README.md.
double unitAt(uint64_t state, int64_t index) {
  uint64_t z = mix64(state + (static_cast<uint64_t>(index) + 1) * 0x9E3779B97F4A7C15);
  return static_cast<double>(z >> 40) * 0x1p-24;
}

Status dimError(const Port &port, size_t dim, int64_t want, int64_t have) {
  return Status::error(
      ErrorId::RunInputDim,
      fmt::format("dim {} of input '{}' is {} in the engine, but {} was requested", dim, port.name,
                  have, want),
      fmt::format("unless the model fixes dim {}, compile with a range for it in --shape {}:…", dim,
                  port.name));
}

const Port *findInput(const Plan &plan, const std::string &name) {
  for (const Port &port : plan.inputs) {
    if (port.name == name) {
      return &port;
    }
  }
  return nullptr;
}

/// Asks for `want` at a dim: sets the symbol that stands there, or compares with the constant.
Status requestDim(const Plan &plan, const Port &port, size_t dim, int64_t want,
                  std::vector<std::optional<int64_t>> &symbols) {
  uint32_t input = static_cast<uint32_t>(&port - plan.inputs.data());
  if (std::optional<uint32_t> symbol = symbolAt(plan, input, dim)) {
    symbols[*symbol] = want;
    return Status::ok();
  }
  std::optional<int64_t> constant = plan.exprs.constantValue(port.dims[dim]);
  if (constant && *constant != want) {
    return dimError(port, dim, want, *constant);
  }
  return Status::ok();
}

Status requestShape(const Plan &plan, const ShapeArgument &shape,
                    std::vector<std::optional<int64_t>> &symbols) {
  const Port *port = findInput(plan, shape.input);
  if (!port) {
    std::vector<std::string> names;
    for (const Port &known : plan.inputs) {
      names.push_back(known.name);
    }
    return Status::error(ErrorId::BadArgument,
                         fmt::format("--shape: the model has no input '{}'", shape.input),
                         didYouMean(shape.input, names, "tenon inspect lists the inputs"));
  }
  if (port->dims.size() != shape.dims.size()) {
    return Status::error(ErrorId::RunInputRank,
                         fmt::format("input '{}' has {} dimensions, but --shape gives {}",
                                     port->name, port->dims.size(), shape.dims.size()),
                         "tenon inspect shows the dimensions of each input");
  }
  for (size_t dim = 0; dim < shape.dims.size(); ++dim) {
    const ShapeArgument::Dim &asked = shape.dims[dim];
    if (!asked.keep && asked.min == asked.max) {
      TENON_TRY(requestDim(plan, *port, dim, asked.min, symbols));
    }
  }
  return Status::ok();
}

/// Sizes that follow from others, or are asked for twice, may not be those of --shape.
Status checkAsked(const Plan &plan, std::span<const ShapeArgument> shapes,
                  const std::vector<std::vector<int64_t>> &dims) {
  for (const ShapeArgument &shape : shapes) {
    size_t index = static_cast<size_t>(findInput(plan, shape.input) - plan.inputs.data());
    for (size_t dim = 0; dim < shape.dims.size(); ++dim) {
      const ShapeArgument::Dim &asked = shape.dims[dim];
      if (!asked.keep && asked.min == asked.max && asked.min != dims[index][dim]) {
        return Status::error(
            ErrorId::RunInputMismatch,
            fmt::format(
                "--shape gives dim {} of input '{}' the size {}, but the other dims make it {}",
                dim, shape.input, asked.min, dims[index][dim]),
            "tenon inspect shows which dims depend on each other");
      }
    }
  }
  return Status::ok();
}

} // namespace

ValueRange defaultRange(DType dtype) {
  return isFloating(dtype) ? ValueRange{-1, 1} : ValueRange{0, 1};
}

bool holds(DType dtype, ValueRange range) {
  double limit = std::ldexp(1.0, static_cast<int>(bitWidth(dtype)));
  switch (dtype) {
  case DType::Bool:
    return range.low >= 0 && range.high <= 1;
  case DType::I8:
  case DType::I16:
  case DType::I32:
  case DType::I64:
    return range.low >= -limit / 2 && range.high < limit / 2;
  case DType::U8:
  case DType::U16:
  case DType::U32:
  case DType::U64:
    return range.low >= 0 && range.high < limit;
  case DType::F16:
    return range.low >= -65504 && range.high <= 65504;
  default:
    return dtype == DType::F64 ||
           std::max(-range.low, range.high) <= std::numeric_limits<float>::max();
  }
}

std::optional<uint32_t> symbolAt(const Plan &plan, uint32_t input, size_t dim) {
  for (uint32_t i = 0; i < plan.symbols.size(); ++i) {
    if (plan.symbols[i].input == input && plan.symbols[i].dim == dim) {
      return i;
    }
  }
  return plan.exprs.symbolIndex(plan.inputs[input].dims[dim]);
}

void fillSeeded(Tensor &tensor, uint64_t seed, ValueRange range) {
  uint64_t state = fnv1a64(tensor.name) ^ mix64(seed);
  int64_t count = tensor.elements();
  bool isFraction = isFloating(tensor.dtype);
  double width = range.high - range.low + (isFraction ? 0 : 1);
  for (int64_t i = 0; i < count; ++i) {
    double value = range.low + width * unitAt(state, i);
    setElement(tensor, i, isFraction ? value : std::min(std::floor(value), range.high));
  }
}

Result<std::vector<std::vector<int64_t>>> chooseDims(const Plan &plan,
                                                     std::span<const ShapeArgument> shapes,
                                                     int64_t batch,
                                                     std::span<const int64_t> session) {
  std::vector<std::optional<int64_t>> asked(plan.symbols.size());
  for (const ShapeArgument &shape : shapes) {
    TENON_TRY(requestShape(plan, shape, asked));
  }
  if (batch > 0) {
    for (const Port &port : plan.inputs) {
      if (!port.dims.empty()) {
        TENON_TRY(requestDim(plan, port, 0, batch, asked));
      }
    }
  }
  std::vector<int64_t> values;
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    const engine::Symbol &symbol = plan.symbols[i];
    if (symbol.isOfSession) {
      values.push_back(session.empty() ? symbol.preset : session[i]);
      continue;
    }
    int64_t value = asked[i].value_or(likelySize(symbol.dim, symbol.min, symbol.max));
    // A run may be empty; whether this one can be, the session says.
    if ((value < symbol.min && value != 0) || value > symbol.max) {
      return Status::error(ErrorId::RunInputDim,
                           fmt::format("dim '{}' is to be {}, but the engine accepts {} to {}",
                                       symbol.name, value, symbol.min, symbol.max),
                           "request a size in this range, or compile with a wider one in --shape");
    }
    values.push_back(value);
  }
  // What was asked for stays: the run names the constraint that it breaks.
  bool isFree =
      std::none_of(asked.begin(), asked.end(), [](const auto &value) { return value.has_value(); });
  if (isFree && !engine::satisfyConstraints(plan, values)) {
    return Status::error(ErrorId::RunShapeConstraint,
                         "no small sizes meet the model's conditions on its inputs",
                         "give the dims with --shape; tenon inspect lists the conditions");
  }
  std::vector<std::vector<int64_t>> result;
  for (uint32_t input = 0; input < plan.inputs.size(); ++input) {
    const Port &port = plan.inputs[input];
    std::vector<int64_t> &dims = result.emplace_back();
    for (uint32_t dim = 0; dim < port.dims.size(); ++dim) {
      std::optional<uint32_t> symbol = symbolAt(plan, input, dim);
      std::optional<int64_t> value =
          symbol ? values[*symbol] : engine::evaluate(plan.exprs.program(port.dims[dim]), values);
      if (!value || *value < 0) {
        return Status::error(
            ErrorId::RunInputDim,
            fmt::format("input '{}' has no valid size for these dimensions", port.name),
            "request smaller dimensions");
      }
      dims.push_back(*value);
    }
  }
  TENON_TRY(checkAsked(plan, shapes, result));
  return result;
}

} // namespace tenon

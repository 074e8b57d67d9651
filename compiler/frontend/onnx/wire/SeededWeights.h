// The generator of weightless graphs (models/README.md): each element is a hash of the tensor's
// name, the seed and the element's index. Bit-equal to models/fill.py.
#pragma once

#include "compiler/frontend/onnx/wire/Model.h"

#include <cstdint>
#include <string_view>

namespace tenon::onnx {

struct SeededRecipe {
  uint64_t state = 0;
  float scale = 0;
  float center = 0;
  DataType type = DataType::Float;
};

uint64_t seededState(std::string_view name, uint64_t seed);
/// Whether the generator has this element type.
bool canSeed(DataType type);
/// Writes elements [begin, begin + count) to `out`, which need not be aligned.
void fillSeeded(const SeededRecipe &recipe, uint64_t begin, uint64_t count, char *out);

} // namespace tenon::onnx

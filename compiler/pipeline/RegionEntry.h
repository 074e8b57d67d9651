// A compiled region as bytes for the compile cache, and back.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"

#include <optional>
#include <string>
#include <string_view>

namespace tenon::pipeline {

std::string encodeRegion(const codegen::CompiledRegion &region);
/// None if the bytes are not a compiled region.
std::optional<codegen::CompiledRegion> decodeRegion(std::string_view bytes);

} // namespace tenon::pipeline

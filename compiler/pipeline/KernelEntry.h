// A compiled kernel as bytes for the compile cache, and back.
#pragma once

#include "compiler/codegen/cpu/CpuCodegen.h"

#include <optional>
#include <string>
#include <string_view>

namespace tenon::pipeline {

std::string encodeKernel(const codegen::cpu::Kernel &kernel);
/// None if the bytes are not a kernel.
std::optional<codegen::cpu::Kernel> decodeKernel(std::string_view bytes);

} // namespace tenon::pipeline

// The NVIDIA architectures that variants are compiled for. The names are stored in engine files and
// shared by the compiler (what PTX may use) and the runtime (what runs).

#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace tenon::engine {

struct CudaArch {
  std::string_view name; ///< "sm_90"; with `a`, for features that only this architecture has
  int number = 0;        ///< compute capability times ten
  bool isSpecific =
      false; ///< PTX of an `a` architecture runs on no other; the rest on all later ones
};

/// Oldest first. compiler/target has what each can do.
inline constexpr std::array<CudaArch, 8> kCudaArchs = {{{"sm_80", 80, false},
                                                        {"sm_86", 86, false},
                                                        {"sm_89", 89, false},
                                                        {"sm_90", 90, false},
                                                        {"sm_90a", 90, true},
                                                        {"sm_100", 100, false},
                                                        {"sm_100a", 100, true},
                                                        {"sm_120", 120, false}}};

constexpr std::optional<CudaArch> parseCudaArch(std::string_view name) {
  for (const CudaArch &arch : kCudaArchs) {
    if (arch.name == name) {
      return arch;
    }
  }
  return std::nullopt;
}

/// Whether a variant of this level is for a GPU: its plan is for device 1, its code is PTX.
constexpr bool isCudaLevel(std::string_view level) { return level.starts_with("sm_"); }

} // namespace tenon::engine

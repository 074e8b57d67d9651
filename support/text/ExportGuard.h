// How a guard of an export stands where a constraint names its node: behind one of these marks,
// with its text. Compiler and engine share them.
#pragma once

#include <optional>
#include <string_view>

namespace tenon {

/// The constraint is what the guard says.
inline constexpr std::string_view kExportGuard = "guard of the export: ";
/// The constraint always holds; a line break and the reason follow the guard's text.
inline constexpr std::string_view kUncheckedGuard = "unchecked guard of the export: ";

struct ExportGuard {
  std::string_view text;
  std::string_view unchecked; ///< why no run checks it; empty where each does
};

/// The guard that a constraint stands for; none where a node of the model needs it.
inline std::optional<ExportGuard> exportGuardOf(std::string_view node) {
  if (node.starts_with(kExportGuard)) {
    return ExportGuard{node.substr(kExportGuard.size()), {}};
  }
  if (!node.starts_with(kUncheckedGuard)) {
    return std::nullopt;
  }
  node.remove_prefix(kUncheckedGuard.size());
  size_t end = node.find('\n');
  return end == std::string_view::npos ? ExportGuard{node, "it cannot be checked"}
                                       : ExportGuard{node.substr(0, end), node.substr(end + 1)};
}

} // namespace tenon

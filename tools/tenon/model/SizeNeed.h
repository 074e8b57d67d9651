// What must be true of free sizes, in words: a constraint of a model or of an engine.

#pragma once

#include "support/text/ExportGuard.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::tool {

struct SizeNeed {
  std::string needs; ///< "H is a multiple of 16", or the text of a guard of the export
  std::string node;  ///< of the model, that needs it
  bool isGuard = false;
  std::string unchecked; ///< of a guard: why no run checks it; empty where each does
};

/// Adds what a constraint says in `words`, named after its node or the guard that stands there;
/// what several constraints of a guard say, once.
inline void addNeed(std::vector<SizeNeed> &needs, std::string_view node, std::string words) {
  std::optional<ExportGuard> guard = exportGuardOf(node);
  if (!guard) {
    needs.push_back({std::move(words), std::string(node), false, ""});
  } else if (needs.empty() || needs.back().needs != guard->text) {
    needs.push_back({std::string(guard->text), "", true, std::string(guard->unchecked)});
  }
}

} // namespace tenon::tool

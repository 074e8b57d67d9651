// What must be true of free sizes, in words: a constraint of a model or of an engine.

#pragma once

#include <string>

namespace tenon::tool {

struct SizeNeed {
  std::string needs; ///< "H is a multiple of 16", or the text of a guard of the export
  std::string node;  ///< of the model, that needs it
  bool isGuard = false;
  std::string unchecked; ///< of a guard: why no run checks it; empty where each does
};

} // namespace tenon::tool

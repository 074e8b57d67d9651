// Names of features, for people.

#include "engine/Level.h"

#include "support/text/Text.h"

#include <span>

namespace tenon::engine {

std::string featureText(Architecture architecture, uint32_t features) {
  static constexpr std::string_view x86Names[] = {"avx2", "avx512", "avx512-vnni", "avx512-bf16"};
  static constexpr std::string_view armNames[] = {"neon", "armv8.2-a", "dotprod"};
  std::string text;
  for (unsigned bit = 0; bit < 32; ++bit) {
    if ((features >> bit & 1) == 0) {
      continue;
    }
    std::span<const std::string_view> names = architecture == Architecture::X86_64
                                                  ? std::span<const std::string_view>(x86Names)
                                                  : std::span<const std::string_view>(armNames);
    bool isGpu = architecture == Architecture::Nvptx;
    text += text.empty() ? "" : ", ";
    if (isGpu && bit < kCudaArchs.size()) {
      text += kCudaArchs[bit].name;
    } else if (!isGpu && bit < names.size()) {
      text += names[bit];
    } else {
      text += strCat("bit ", bit);
    }
  }
  return text;
}

} // namespace tenon::engine

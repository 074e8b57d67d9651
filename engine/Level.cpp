// Names of features, for people.

#include "engine/Level.h"

#include "support/text/Text.h"

namespace tenon::engine {
namespace {

/// Empty for a bit without a name.
std::string_view nameOfBit(Architecture architecture, unsigned bit) {
  if (architecture == Architecture::Nvptx) {
    return bit < kCudaArchs.size() ? kCudaArchs[bit].name : std::string_view();
  }
  for (const CpuFeature &feature : kCpuFeatures) {
    if (feature.architecture == architecture && feature.bit == uint32_t(1) << bit) {
      return feature.name;
    }
  }
  return {};
}

} // namespace

std::string featureText(Architecture architecture, uint32_t features) {
  std::string text;
  for (unsigned bit = 0; bit < 32; ++bit) {
    if ((features >> bit & 1) != 0) {
      std::string_view name = nameOfBit(architecture, bit);
      text += text.empty() ? "" : ", ";
      text += name.empty() ? strCat("bit ", bit) : std::string(name);
    }
  }
  return text;
}

} // namespace tenon::engine

// The kernels by name, with their texts. The names of a kernel's parameters are read from its
// struct, so that there is one list of them.
#include "compiler/codegen/edge/Program.h"

#include <array>
#include <cctype>

namespace tenon::codegen::edge {
namespace {

constexpr std::string_view kCommon =
#include "edge/kernels/common.inc"
    ;
constexpr std::array<std::pair<std::string_view, std::string_view>, kKernels> kTexts = {{
    {
        "conv",
#include "edge/kernels/conv.inc"
    },
    {
        "depthwise",
#include "edge/kernels/depthwise.inc"
    },
    {
        "add",
#include "edge/kernels/add.inc"
    },
    {
        "mul",
#include "edge/kernels/mul.inc"
    },
    {
        "affine",
#include "edge/kernels/affine.inc"
    },
    {
        "average",
#include "edge/kernels/average.inc"
    },
    {
        "maximum",
#include "edge/kernels/maximum.inc"
    },
    {
        "table",
#include "edge/kernels/table.inc"
    },
    {
        "softmax",
#include "edge/kernels/softmax.inc"
    },
    {
        "move",
#include "edge/kernels/move.inc"
    },
    {
        "fill",
#include "edge/kernels/fill.inc"
    },
    {
        "add_lite",
#include "edge/kernels/add_lite.inc"
    },
    {
        "average_lite",
#include "edge/kernels/average_lite.inc"
    },
    {
        "softmax_lite",
#include "edge/kernels/softmax_lite.inc"
    },
}};

/// The words between "typedef struct {" and "}" but types and comments.
std::vector<std::string> fieldsOf(std::string_view text) {
  constexpr std::string_view kBegin = "typedef struct {";
  text.remove_prefix(text.find(kBegin) + kBegin.size());
  text = text.substr(0, text.find('}'));
  std::vector<std::string> fields;
  std::string word;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      i = text.find('\n', i);
    }
    bool isLetter = std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_';
    if (isLetter) {
      word += text[i];
    } else if (!word.empty()) {
      if (word != "int32_t") {
        fields.push_back(word);
      }
      word.clear();
    }
  }
  return fields;
}

std::array<KernelInfo, kKernels> readKernels() {
  std::array<KernelInfo, kKernels> all;
  for (size_t i = 0; i < kKernels; ++i) {
    all[i] = {kTexts[i].first, kTexts[i].second, fieldsOf(kTexts[i].second)};
  }
  return all;
}

} // namespace

const KernelInfo &infoOf(Kernel kernel) {
  static const std::array<KernelInfo, kKernels> kAll = readKernels();
  return kAll[static_cast<size_t>(kernel)];
}

std::string_view commonKernelText() { return kCommon; }

} // namespace tenon::codegen::edge

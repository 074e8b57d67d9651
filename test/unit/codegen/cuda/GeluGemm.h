// What products by warpgroups are tested with: gelu(a b + bias), on an emulated sm_90a.
#pragma once

#include "test/unit/codegen/emulator/HandKernelCheck.h"

namespace tenon::codegen::cuda {

inline const target::Target &kWarpgroupGpu = target::targetOf("sm_90a");

/// How the constant b lies: [depth, columns], [columns, depth], or packed as the latter.
enum class RightStored { DepthFirst, ColumnsFirst, Packed };

inline std::string geluGemm(const std::string &type, int64_t rows, int64_t columns, int64_t depth,
                            RightStored right = RightStored::DepthFirst) {
  auto tensor = [&](std::initializer_list<int64_t> dims) {
    std::string text = "tensor<";
    for (int64_t dim : dims) {
      text += std::to_string(dim) + "x";
    }
    return text + type + ">";
  };
  bool isTransposed = right == RightStored::ColumnsFirst, isPacked = right == RightStored::Packed;
  std::string a = tensor({rows, depth}), y = tensor({rows, columns}), bias = tensor({columns}),
              b = isTransposed ? tensor({columns, depth}) : tensor({depth, columns}),
              stored = isPacked ? tensor({columns, depth}) : b, body;
  if (isPacked) {
    body = "%w = tn.unpack %b outer_dims_perm = [1, 0] : (" + stored + ") -> " + b + "\n";
  }
  body += std::string("%0 = tn.matmul %a, ") + (isPacked ? "%w " : "%b ") +
          (isTransposed ? "{transposeB} : (" : ": (") + a + ", " + b + ") -> " + y +
          "\n%1 = tn.add %0, %c : (" + y + ", " + bias + ") -> " + y + "\n%2 = tn.gelu %1 : " + y +
          "\nreturn %2 : " + y;
  return regionText("contraction",
                    "(%a: " + a + ", %b: " + stored + " {tn.constant}, %c: " + bias + ") -> " + y,
                    body);
}

inline RunOptions warpgroupOptions(bool reversed = false) {
  RunOptions result;
  result.inputScale = 1;
  result.reversed = reversed;
  result.gpu = kWarpgroupGpu;
  return result;
}

} // namespace tenon::codegen::cuda

// Products and convolutions of floats whose results leave the kernel as bytes, on the emulated GPU:
// the layers of a quantized net that stay in floats, by each family that may have one.
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include <cmath>

namespace tenon::codegen::cuda {
namespace {

/// Scale, zero point and range of bytes.
std::string numbers() {
  std::string text, one = "tensor<f32>";
  for (auto [name, value] :
       {std::pair("s", "0.75"), {"z", "5.0"}, {"lo", "0.0"}, {"hi", "255.0"}}) {
    text += std::string("%") + name + " = tn.constant dense<" + value + "> : " + one + " : " + one +
            "\n";
  }
  return text;
}

/// %y, of floats, as bytes with a zero point: what a pass makes of tn.quantize.
std::string quantized(const std::string &dims, const std::string &type) {
  std::string y = "tensor<" + dims + type + ">", f = "tensor<" + dims + "f32>",
              flag = "tensor<" + dims + "i1>", q = "tensor<" + dims + "ui8>", one = "tensor<f32>";
  std::string text = type == "f32" ? "%f = tn.relu %y : " + y + "\n"
                                   : "%f = tn.cast %y : (" + y + ") -> " + f + "\n";
  std::string pair = " : (" + f + ", " + one + ") -> ",
              choice = " : (" + flag + ", " + f + ", " + one + ") -> " + f + "\n";
  return text + "%0 = tn.mul %f, %s" + pair + f + "\n%1 = tn.round %0 : " + f +
         "\n%2 = tn.add %1, %z" + pair + f + "\n%3 = tn.compare %2 <gt> %lo" + pair + flag +
         "\n%4 = tn.select %3, %2, %lo" + choice + "%5 = tn.compare %4 <lt> %hi" + pair + flag +
         "\n%6 = tn.select %5, %4, %hi" + choice + "%7 = tn.cast %6 : (" + f + ") -> " + q +
         "\nreturn %7 : " + q;
}

std::string matmulText(int64_t m, int64_t n, int64_t k, const std::string &type) {
  auto dims = [](int64_t a, int64_t b) {
    return std::to_string(a) + "x" + std::to_string(b) + "x";
  };
  std::string a = "tensor<" + dims(m, k) + type + ">", b = "tensor<" + dims(n, k) + type + ">",
              y = "tensor<" + dims(m, n) + type + ">", q = "tensor<" + dims(m, n) + "ui8>";
  return regionText("contraction", "(%a: " + a + ", %b: " + b + " {tn.constant}) -> " + q,
                    numbers() + "%y = tn.matmul %a, %b {transposeB} : (" + a + ", " + b + ") -> " +
                        y + "\n" + quantized(dims(m, n), type));
}

std::string convText(int64_t channels, int64_t columns, const std::string &type) {
  std::string c = std::to_string(channels) + "x", o = std::to_string(columns) + "x";
  std::string x = "tensor<2x9x8x" + c + type + ">", w = "tensor<" + o + c + "3x3x" + type + ">",
              y = "tensor<2x9x8x" + o + type + ">", q = "tensor<2x9x8x" + o + "ui8>";
  return regionText("contraction", "(%a: " + x + ", %b: " + w + " {tn.constant}) -> " + q,
                    numbers() +
                        "%y = tn.conv %a, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, "
                        "1, 1>, dilations = "
                        "array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (" +
                        x + ", " + w + ") -> " + y + "\n" + quantized("2x9x8x" + o, type));
}

std::string depthwiseText(int64_t channels, const std::string &type) {
  std::string c = std::to_string(channels), dims = "2x9x8x" + c + "x";
  std::string x = "tensor<" + dims + type + ">", w = "tensor<" + c + "x1x3x3x" + type + ">",
              stored = "tensor<1x3x3x1x" + c + "x" + type + ">", q = "tensor<" + dims + "ui8>";
  return regionText(
      "depthwise", "(%a: " + x + ", %p: " + stored + " {tn.constant}) -> " + q,
      numbers() +
          "%b = tn.unpack %p outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] "
          "inner_tiles = [" +
          c + "] : (" + stored + ") -> " + w +
          "\n%y = tn.conv %a, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, "
          "dilations = array<i64: 1, 1>, groups = " +
          c + " : i64, channelsLast = true} : (" + x + ", " + w + ") -> " + x + "\n" +
          quantized(dims, type));
}

/// Whole numbers up to 2, whose sums are exact in any order.
RunOptions wholeNumbers(const char *gpu) {
  RunOptions options;
  options.inputScale = 2.5;
  options.gpu = target::targetOf(gpu);
  options.edit = [](llvm::MutableArrayRef<reference::Tensor> inputs) {
    for (reference::Tensor &input : inputs) {
      reference::Tensor wide = *reference::convert(input, DType::F64);
      for (int64_t i = 0; i < wide.count(); ++i) {
        wide.as<double>()[i] = std::trunc(wide.as<double>()[i]);
      }
      input = *reference::convert(wide, input.dtype());
    }
  };
  return options;
}

TEST(CudaQuantizedResultTest, Products) {
  EXPECT_TRUE(matchesReference(matmulText(70, 72, 96, "f16"), byFamily({"gemm_tensorcore"}),
                               wholeNumbers("sm_80")));
  EXPECT_TRUE(matchesReference(matmulText(21, 13, 33, "f32"), byFamily({"gemm_simt"}),
                               wholeNumbers("sm_80")));
  EXPECT_TRUE(
      matchesReference(matmulText(4, 64, 256, "f16"), byFamily({"gemv"}), wholeNumbers("sm_80")));
}

TEST(CudaQuantizedResultTest, Convolutions) {
  for (int64_t columns : {64, 13}) {
    EXPECT_TRUE(matchesReference(convText(8, columns, "f16"), byFamily({"conv_tensorcore"}),
                                 wholeNumbers("sm_80")));
    EXPECT_TRUE(matchesReference(convText(3, columns, "f32"), byFamily({"conv_simt"}),
                                 wholeNumbers("sm_80")));
  }
  for (const char *type : {"f16", "f32"}) {
    EXPECT_TRUE(matchesReference(depthwiseText(24, type), byFamily({"conv_depthwise"}),
                                 wholeNumbers("sm_80")));
  }
}

} // namespace
} // namespace tenon::codegen::cuda

// Products and convolutions of small integers on the emulated GPU: tensor cores and FP32
// arithmetic, tails, batches, splits of the depth, the largest sums that a stage can have,
// epilogues.
#include "compiler/codegen/cuda/conv/Conv.h"
#include "compiler/codegen/cuda/gemm/TiledGemm.h"
#include "compiler/codegen/cuda/gemm/WarpgroupTiles.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include <cmath>
#include <cstring>
#include <regex>

namespace tenon::codegen::cuda {
namespace {

std::string tensor(const std::vector<int64_t> &dims, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + type + ">";
}

/// Bytes as they are: relu of the sums, cast and scaled, or the sums.
std::string bytesText(int64_t m, int64_t n, int64_t k, bool isRequantized) {
  std::string a = tensor({m, k}, "ui8"), b = tensor({n, k}, "i8"), y = tensor({m, n}, "i32"),
              f = tensor({m, n}, "f32"), s = tensor({n}, "f32"),
              out = isRequantized ? tensor({m, n}, "ui8") : y;
  std::string body = "%0 = tn.matmul %a, %b {transposeB} : (" + a + ", " + b + ") -> " + y + "\n";
  body += isRequantized ? "%1 = tn.cast %0 : (" + y + ") -> " + f + "\n%2 = tn.mul %1, %s : (" + f +
                              ", " + s + ") -> " + f +
                              "\n%3 = tn.clamp %2 {lo = 0.0 : f64, hi = 255.0 : f64} : " + f +
                              "\n%4 = tn.round %3 : " + f + "\n%5 = tn.cast %4 : (" + f + ") -> " +
                              out + "\nreturn %5 : " + out
                        : "return %0 : " + out;
  return regionText("contraction",
                    "(%a: " + a + ", %b: " + b + " {tn.constant}" +
                        (isRequantized ? ", %s: " + s : "") + ") -> " + out,
                    body);
}

/// All values of both types.
RunOptions bytes() {
  RunOptions options;
  options.inputScale = 0.02;
  options.gpu = target::targetOf("sm_80");
  options.edit = [](llvm::MutableArrayRef<reference::Tensor> inputs) {
    for (reference::Tensor &input : inputs.take_front(2)) {
      uint8_t *numbers = reinterpret_cast<uint8_t *>(input.mutableBytes());
      for (size_t i = 0; i < input.byteCount(); ++i) {
        numbers[i] = uint8_t((i * 2654435761u) >> 11);
      }
    }
  };
  return options;
}

struct Case {
  int64_t m, n, k;
  bool transposeA = false, transposeB = false;
  int64_t batch = 0;
  std::string epilogue = {}; ///< from %y to %z, and the type of that
  std::string result = "i32";
};

std::string textOf(const Case &c) {
  auto dims = [&](int64_t rows, int64_t columns, bool isTransposed) {
    std::vector<int64_t> result =
        isTransposed ? std::vector{columns, rows} : std::vector{rows, columns};
    if (c.batch != 0) {
      result.insert(result.begin(), c.batch);
    }
    return result;
  };
  std::vector<int64_t> a = dims(c.m, c.k, c.transposeA), b = dims(c.k, c.n, c.transposeB),
                       y = dims(c.m, c.n, false);
  std::string body = "%x = tn.cast %a : (" + tensor(a, "f16") + ") -> " + tensor(a, "i32") +
                     "\n%w = tn.cast %b : (" + tensor(b, "f16") + ") -> " + tensor(b, "i32") +
                     "\n%y = tn.matmul %x, %w {" + (c.transposeA ? "transposeA, " : "") +
                     (c.transposeB ? "transposeB, " : "") + "tn.narrow_integers} : (" +
                     tensor(a, "i32") + ", " + tensor(b, "i32") + ") -> " + tensor(y, "i32") + "\n";
  std::string result = tensor(y, c.result);
  body += c.epilogue.empty() ? "return %y : " + result
                             : c.epilogue + " : (" + tensor(y, "i32") + ") -> " + result +
                                   "\nreturn %z : " + result;
  return regionText("contraction",
                    "(%a: " + tensor(a, "f16") + ", %b: " + tensor(b, "f16") + ") -> " + result,
                    body);
}

/// Whole numbers of at most 255 in magnitude; or all the largest.
RunOptions integers(bool areLargest = false) {
  RunOptions options;
  options.inputScale = 255;
  options.gpu = target::targetOf("sm_80");
  options.edit = [areLargest](llvm::MutableArrayRef<reference::Tensor> inputs) {
    for (reference::Tensor &input : inputs) {
      if (input.dtype() != DType::F16) {
        continue;
      }
      reference::Tensor wide = *reference::convert(input, DType::F64);
      for (int64_t i = 0; i < wide.count(); ++i) {
        double &number = wide.as<double>()[i];
        number = areLargest ? 255 : std::trunc(number);
      }
      input = *reference::convert(wide, DType::F16);
    }
  };
  return options;
}

const Emitter emitChosen = byFamily({"gemm_tensorcore", "gemm_simt"});

TEST(CudaIntegerGemmTest, Bytes) {
  Emitter cores = byFamily({"gemm_tensorcore"});
  for (bool isRequantized : {false, true}) {
    EXPECT_TRUE(matchesReference(bytesText(64, 64, 256, isRequantized), cores, bytes()));
    EXPECT_TRUE(matchesReference(bytesText(37, 72, 144, isRequantized), cores, bytes()));
    EXPECT_TRUE(matchesReference(bytesText(200, 40, 1024, isRequantized), cores, bytes()));
  }
  llvm::Expected<std::string> ptx =
      emitTestPtx(bytesText(4096, 1024, 1024, true), cores, target::targetOf("sm_80"));
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"), std::string::npos);
  EXPECT_TRUE(assembles(*ptx, target::targetOf("sm_80")));
}

TEST(CudaIntegerGemmTest, TensorCores) {
  for (bool transposeA : {false, true}) {
    for (bool transposeB : {false, true}) {
      EXPECT_TRUE(matchesReference(textOf({40, 72, 200, transposeA, transposeB}),
                                   byFamily({"gemm_tensorcore"}), integers()));
    }
  }
  EXPECT_TRUE(matchesReference(textOf({24, 16, 64, false, false, 3}), emitChosen, integers()));
}

TEST(CudaIntegerGemmTest, OddSizes) {
  for (bool isTransposed : {false, true}) {
    EXPECT_TRUE(matchesReference(textOf({7, 9, 33, isTransposed, !isTransposed}),
                                 byFamily({"gemm_tensorcore"}), integers()));
  }
  EXPECT_TRUE(matchesReference(textOf({1, 70, 129}), emitChosen, integers()));
}

/// The sums are beyond what FP32 holds; those of one stage are not.
TEST(CudaIntegerGemmTest, LargestSums) {
  EXPECT_TRUE(matchesReference(textOf({16, 8, 1024}), byFamily({"gemm_tensorcore"}),
                               integers(/*areLargest=*/true)));
  EXPECT_TRUE(matchesReference(textOf({5, 7, 999}), byFamily({"gemm_tensorcore"}),
                               integers(/*areLargest=*/true)));
}

TEST(CudaIntegerGemmTest, SplitsOfTheDepth) {
  Emitter emitter = [](RegionBuilder &region) -> mlir::FailureOr<bool> {
    return emitProduct(region, *matchGemm(region.source),
                       {32, 64, 64, 16, 32, 4, 3, /*isSimt=*/false});
  };
  EXPECT_TRUE(matchesReference(textOf({40, 72, 520}), emitter, integers()));
}

TEST(CudaIntegerGemmTest, Epilogue) {
  Case c{20, 24, 72};
  c.epilogue = "%z = tn.cast %y";
  c.result = "f32";
  EXPECT_TRUE(matchesReference(textOf(c), emitChosen, integers()));
  c.n = 1;
  EXPECT_TRUE(matchesReference(textOf(c), emitChosen, integers()));
}

/// Scaled, rounded and saturated to 8 bits, as in a quantized model.
TEST(CudaIntegerGemmTest, QuantizedResult) {
  std::string a = "tensor<20x72xf16>", b = "tensor<72x24xf16>", wide = "tensor<20x24xi32>",
              real = "tensor<20x24xf32>", flag = "tensor<20x24xi1>", y = "tensor<20x24xui8>",
              row = "tensor<24xf32>", one = "tensor<f32>";
  auto constant = [&](const std::string &name, const std::string &value) {
    return "%" + name + " = tn.constant dense<" + value + "> : " + one + " : " + one + "\n";
  };
  std::string text = regionText(
      "contraction", "(%a: " + a + ", %b: " + b + ", %s: " + row + ") -> " + y,
      constant("z", "1.28e+02") + constant("lo", "0.0") + constant("hi", "2.55e+02") +
          "%x = tn.cast %a : (" + a + ") -> tensor<20x72xi32>\n%w = tn.cast %b : (" + b +
          ") -> tensor<72x24xi32>\n%0 = tn.matmul %x, %w {tn.narrow_integers} : "
          "(tensor<20x72xi32>, tensor<72x24xi32>) -> " +
          wide + "\n%1 = tn.cast %0 : (" + wide + ") -> " + real + "\n%2 = tn.mul %1, %s : (" +
          real + ", " + row + ") -> " + real + "\n%3 = tn.round %2 : " + real +
          "\n%4 = tn.add %3, %z : (" + real + ", " + one + ") -> " + real +
          "\n%5 = tn.compare %4 <gt> %lo : (" + real + ", " + one + ") -> " + flag +
          "\n%6 = tn.select %5, %4, %lo : (" + flag + ", " + real + ", " + one + ") -> " + real +
          "\n%7 = tn.compare %6 <lt> %hi : (" + real + ", " + one + ") -> " + flag +
          "\n%8 = tn.select %7, %6, %hi : (" + flag + ", " + real + ", " + one + ") -> " + real +
          "\n%9 = tn.cast %8 : (" + real + ") -> " + y + "\nreturn %9 : " + y);
  RunOptions options = integers();
  std::function<void(llvm::MutableArrayRef<reference::Tensor>)> whole = options.edit;
  options.edit = [whole](llvm::MutableArrayRef<reference::Tensor> inputs) {
    whole(inputs);
    for (float &scale : llvm::MutableArrayRef(inputs[2].as<float>(), inputs[2].count())) {
      scale = std::abs(scale) * 1e-6f;
    }
  };
  EXPECT_TRUE(matchesReference(text, emitChosen, options));
}

/// What follows turns the result into that of a product of floats: not one of those kernels.
TEST(CudaIntegerGemmTest, KernelsOfFloatsRefuse) {
  Case c{4096, 4096, 512};
  c.epilogue = "%z = tn.cast %y";
  c.result = "f16";
  for (const char *family : {"gemm_persistent", "gemm_skinny", "gemv", "cublaslt"}) {
    llvm::Expected<std::string> ptx =
        emitTestPtx(textOf(c), byFamily({family}), target::targetOf("sm_90a"));
    EXPECT_FALSE(ptx) << family;
    llvm::consumeError(ptx.takeError());
  }
}

std::string convText(int64_t channels, int64_t columns, int64_t groups) {
  std::string x = tensor({2, 9, 7, channels}, "f16"), wideX = tensor({2, 9, 7, channels}, "i32");
  int64_t each = channels / groups;
  std::string stored = tensor({columns, 3, 3, each}, "f16"),
              w = tensor({columns, each, 3, 3}, "f16"),
              wideW = tensor({columns, each, 3, 3}, "i32");
  std::string y = tensor({2, 5, 4, columns}, "i32");
  return regionText(
      "contraction", "(%a: " + x + ", %b: " + stored + " {tn.constant}) -> " + y,
      "%x = tn.cast %a : (" + x + ") -> " + wideX + "\n%t = tn.transpose %b [0, 3, 1, 2] : (" +
          stored + ") -> " + w + "\n%w = tn.cast %t : (" + w + ") -> " + wideW +
          "\n%y = tn.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, "
          "dilations = array<i64: 1, 1>, groups = " +
          std::to_string(groups) + " : i64, channelsLast = true, tn.narrow_integers} : (" + wideX +
          ", " + wideW + ") -> " + y + "\nreturn %y : " + y);
}

TEST(CudaIntegerGemmTest, Convolutions) {
  Emitter conv = byFamily({"conv_tensorcore"});
  EXPECT_TRUE(matchesReference(convText(16, 24, 1), conv, integers()));
  EXPECT_TRUE(matchesReference(convText(3, 8, 1), conv, integers(/*areLargest=*/true)));
  EXPECT_TRUE(matchesReference(convText(8, 12, 4), conv, integers()));
}

/// A byte that is stored alone: ptxas would convert the float whose low bits it is.
TEST(CudaIntegerGemmTest, BytesStoredAlone) {
  std::string text = regionText(
      "elementwise", "(%x: tensor<37xf32>) -> tensor<37xui8>",
      "%lo = tn.constant dense<0.0> : tensor<f32> : tensor<f32>\n%hi = tn.constant dense<255.0> : "
      "tensor<f32> : tensor<f32>\n"
      "%0 = tn.round %x : tensor<37xf32>\n%1 = tn.compare %0 <gt> %lo : (tensor<37xf32>, "
      "tensor<f32>) -> tensor<37xi1>\n"
      "%2 = tn.select %1, %0, %lo : (tensor<37xi1>, tensor<37xf32>, tensor<f32>) -> "
      "tensor<37xf32>\n"
      "%3 = tn.compare %2 <lt> %hi : (tensor<37xf32>, tensor<f32>) -> tensor<37xi1>\n"
      "%4 = tn.select %3, %2, %hi : (tensor<37xi1>, tensor<37xf32>, tensor<f32>) -> "
      "tensor<37xf32>\n"
      "%5 = tn.cast %4 : (tensor<37xf32>) -> tensor<37xui8>\nreturn %5 : tensor<37xui8>");
  RunOptions options;
  options.inputScale = 300;
  EXPECT_TRUE(matchesReference(text, byFamily({"pointwise"}), options));
  llvm::Expected<std::string> ptx =
      emitTestPtx(text, byFamily({"pointwise"}), target::targetOf("sm_90"));
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  std::smatch sum;
  std::regex added("add\\.f32 \\t(%r[0-9]+), %r[0-9]+, 0f4B4");
  ASSERT_TRUE(std::regex_search(*ptx, sum, added)) << *ptx;
  EXPECT_FALSE(std::regex_search(*ptx, std::regex("st\\.global\\.b8 [^;]*" + sum[1].str() + ";")))
      << *ptx;
}

/// Convolutions of bytes, the ends of a quantized model behind: scaled, a bias, a residual of
/// bytes, to bytes.
struct ByteConv {
  std::string type = "ui8";
  int64_t height = 9, width = 7, channels = 16, columns = 32, groups = 1, taps = 3, stride = 1,
          pad = 1;
  bool isRequantized = true;
  int64_t images = 2;
};

std::string byteConvText(const ByteConv &c) {
  auto out = [&](int64_t size) { return (size + 2 * c.pad - c.taps) / c.stride + 1; };
  std::vector<int64_t> dims = {c.images, out(c.height), out(c.width), c.columns};
  std::string x = tensor({c.images, c.height, c.width, c.channels}, c.type),
              w = tensor({c.columns, c.channels / c.groups, c.taps, c.taps}, "i8"),
              y = tensor(dims, "i32"), f = tensor(dims, "f32"), q = tensor(dims, c.type),
              s = tensor({c.columns}, "f32"), flag = tensor(dims, "i1"), one = "tensor<f32>",
              result = c.isRequantized ? q : y;
  bool isDepthwise = c.groups > 1 && c.groups == c.channels;
  std::string stored = isDepthwise
                           ? tensor({1, c.taps, c.taps, 1, c.columns}, "i8")
                           : tensor({c.columns, c.taps, c.taps, c.channels / c.groups}, "i8");
  std::string tiles =
      isDepthwise ? " inner_dims_pos = [0] inner_tiles = [" + std::to_string(c.columns) + "]" : "";
  std::string pad = std::to_string(c.pad), stride = std::to_string(c.stride);
  bool isSigned = c.type == "i8";
  auto number = [&](const std::string &name, const std::string &value) {
    return "%" + name + " = tn.constant dense<" + value + "> : " + one + " : " + one + "\n";
  };
  auto binary = [&](const std::string &name, const std::string &op, const std::string &a,
                    const std::string &b, const std::string &type) {
    return "%" + name + " = tn." + op + " %" + a + ", %" + b + " : (" + f + ", " + type + ") -> " +
           f + "\n";
  };
  std::string body = number("lo", isSigned ? "-128.0" : "0.0") +
                     number("hi", isSigned ? "127.0" : "255.0") +
                     number("z", isSigned ? "-3.0" : "5.0") +
                     "%b = tn.unpack %p outer_dims_perm = [0, 2, 3, 1]" + tiles + " : (" + stored +
                     ") -> " + w + "\n%0 = tn.conv %a, %b {strides = array<i64: " + stride + ", " +
                     stride + ">, pads = array<i64: " + pad + ", " + pad + ", " + pad + ", " + pad +
                     ">, dilations = array<i64: 1, 1>, groups = " + std::to_string(c.groups) +
                     " : i64, channelsLast = true} : (" + x + ", " + w + ") -> " + y + "\n";
  if (c.isRequantized) {
    body += "%1 = tn.cast %0 : (" + y + ") -> " + f + "\n" + binary("2", "mul", "1", "s", s) +
            binary("3", "add", "2", "s", s) + "%4 = tn.cast %r : (" + q + ") -> " + f + "\n" +
            binary("5", "sub", "4", "z", one) + binary("6", "mul", "5", "s", s) +
            binary("7", "add", "3", "6", f) + "%8 = tn.relu %7 : " + f +
            "\n%9 = tn.round %8 : " + f + "\n" + binary("10", "add", "9", "z", one) +
            "%11 = tn.compare %10 <gt> %lo : (" + f + ", " + one + ") -> " + flag +
            "\n%12 = tn.select %11, %10, %lo : (" + flag + ", " + f + ", " + one + ") -> " + f +
            "\n%13 = tn.compare %12 <lt> %hi : (" + f + ", " + one + ") -> " + flag +
            "\n%14 = tn.select %13, %12, %hi : (" + flag + ", " + f + ", " + one + ") -> " + f +
            "\n%15 = tn.cast %14 : (" + f + ") -> " + q + "\n";
  }
  return regionText(isDepthwise ? "depthwise" : "contraction",
                    "(%a: " + x + ", %p: " + stored + " {tn.constant}" +
                        (c.isRequantized ? ", %r: " + q + ", %s: " + s : "") + ") -> " + result,
                    body + "return " + (c.isRequantized ? "%15" : "%0") + " : " + result);
}

/// All bytes, and scales that leave most results within the range of one.
RunOptions convBytes() {
  RunOptions options = bytes();
  std::function<void(llvm::MutableArrayRef<reference::Tensor>)> two = options.edit;
  options.edit = [two](llvm::MutableArrayRef<reference::Tensor> inputs) {
    two(inputs);
    if (inputs.size() > 3) {
      two(inputs.slice(1, 2));
      for (float &scale : llvm::MutableArrayRef(inputs[3].as<float>(), inputs[3].count())) {
        scale = 0.001f + std::abs(scale) * 0.01f;
      }
    }
  };
  return options;
}

TEST(CudaIntegerGemmTest, DirectConvolutionsOfBytes) {
  Emitter direct = byFamily({"conv_direct"});
  for (const char *type : {"ui8", "i8"}) {
    for (int64_t stride : {1, 2}) {
      EXPECT_TRUE(matchesReference(
          byteConvText({.type = type, .channels = 32, .columns = 24, .stride = stride}), direct,
          convBytes()));
      EXPECT_TRUE(matchesReference(
          byteConvText(
              {.type = type, .channels = 32, .columns = 16, .groups = 4, .stride = stride}),
          direct, convBytes()));
    }
    // Two pixels are an octet.
    EXPECT_TRUE(matchesReference(
        byteConvText(
            {.type = type, .channels = 8, .columns = 40, .taps = 5, .stride = 2, .pad = 2}),
        direct, convBytes()));
  }
}

TEST(CudaIntegerGemmTest, ConvolutionsOfBytes) {
  Emitter conv = byFamily({"conv_tensorcore"});
  for (const char *type : {"ui8", "i8"}) {
    RunOptions options = convBytes();
    EXPECT_TRUE(matchesReference(byteConvText({.type = type}), conv, options));
    EXPECT_TRUE(
        matchesReference(byteConvText({.type = type, .isRequantized = false}), conv, options));
    EXPECT_TRUE(matchesReference(
        byteConvText({.type = type, .channels = 64, .columns = 72, .taps = 1, .pad = 0}), conv,
        options));
    EXPECT_TRUE(matchesReference(
        byteConvText(
            {.type = type, .channels = 4, .columns = 40, .taps = 5, .stride = 2, .pad = 2}),
        conv, options));
    EXPECT_TRUE(matchesReference(
        byteConvText({.type = type, .channels = 16, .columns = 24, .groups = 4}), conv, options));
    EXPECT_TRUE(matchesReference(byteConvText({.type = type, .channels = 20, .columns = 13}), conv,
                                 options));
  }
  // Tiles whose sums stay in registers, with tails of both kinds and two strips a lane.
  for (auto [rows, columns] :
       {std::pair<int64_t, int64_t>(64, 64), {128, 64}, {128, 128}, {64, 32}}) {
    Emitter tile = [rows = rows,
                    columns = columns](RegionBuilder &region) -> mlir::FailureOr<bool> {
      return emitConv(region, *matchConv(region, /*isHalf=*/true), mmaTile(rows, columns, 64));
    };
    EXPECT_TRUE(
        matchesReference(byteConvText({.height = 10, .width = 8, .channels = 32, .columns = 136}),
                         tile, convBytes()));
    EXPECT_TRUE(matchesReference(
        byteConvText({.type = "i8", .height = 8, .width = 8, .channels = 32, .columns = 64}), tile,
        convBytes()));
    // On a GPU of one multiprocessor blocks go from tile to tile, of several groups too.
    RunOptions few = convBytes();
    few.gpu.cores = 1;
    few.reversed = columns == 64;
    EXPECT_TRUE(matchesReference(
        byteConvText({.height = 13, .width = 11, .channels = 16, .columns = 136, .images = 4}),
        tile, few));
    EXPECT_TRUE(matchesReference(byteConvText({.height = 16,
                                               .width = 9,
                                               .channels = 48,
                                               .columns = 192,
                                               .groups = 3,
                                               .taps = 1,
                                               .pad = 0,
                                               .images = 4}),
                                 tile, few));
  }
  llvm::Expected<std::string> ptx = emitTestPtx(
      byteConvText({.type = "i8", .height = 56, .width = 56, .channels = 64, .columns = 64}), conv,
      target::targetOf("sm_80"));
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"), std::string::npos);
  // Neither roundings nor conversions to and from bytes.
  for (const char *slow : {"cvt.rni.f32.f32", "cvt.rn.f32.u8", "cvt.rn.f32.s8", "cvt.rzi"}) {
    EXPECT_EQ(ptx->find(slow), std::string::npos) << slow;
  }
}

TEST(CudaIntegerGemmTest, BytesByWarpgroups) {
  RunOptions options = bytes();
  options.gpu = target::targetOf("sm_90a");
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>(128, 64), {256, 128}}) {
    Emitter tile = [rows = rows, columns = columns](RegionBuilder &region) {
      return mlir::FailureOr<bool>(
          emitProduct(region, *matchGemm(region.source), warpgroupTile(rows, columns, region.gpu)));
    };
    options.reversed = rows == 256;
    EXPECT_TRUE(matchesReference(bytesText(300, 136, 272, true), tile, options));
    EXPECT_TRUE(matchesReference(bytesText(128, 64, 128, false), tile, options));
  }
  EXPECT_TRUE(
      matchesReference(bytesText(77, 200, 144, true), byFamily({"gemm_warpgroup"}), options));
}

/// Tails of rows, columns and depth, padding, strides, groups, and blocks that go from tile to
/// tile.
TEST(CudaIntegerGemmTest, ConvolutionsOfBytesByWarpgroups) {
  for (const char *type : {"ui8", "i8"}) {
    for (auto [rows, columns] :
         {std::pair<int64_t, int64_t>(128, 64), {128, 128}, {128, 256}, {256, 128}}) {
      Emitter tile = [rows = rows,
                      columns = columns](RegionBuilder &region) -> mlir::FailureOr<bool> {
        return emitConv(region, *matchConv(region, /*isHalf=*/true),
                        warpgroupTile(rows, columns, region.gpu));
      };
      RunOptions options = convBytes();
      options.gpu = target::targetOf("sm_90a");
      options.reversed = columns == 128;
      EXPECT_TRUE(matchesReference(
          byteConvText({.type = type, .height = 13, .channels = 32, .columns = 136}), tile,
          options));
      options.gpu.cores = 1;
      EXPECT_TRUE(matchesReference(byteConvText({.type = type,
                                                 .height = 17,
                                                 .width = 16,
                                                 .channels = 64,
                                                 .columns = 192,
                                                 .taps = 1,
                                                 .stride = 2,
                                                 .pad = 0,
                                                 .images = 5}),
                                   tile, options));
      EXPECT_TRUE(matchesReference(byteConvText({.type = type,
                                                 .height = 12,
                                                 .channels = 48,
                                                 .columns = 48,
                                                 .groups = 3,
                                                 .images = 4}),
                                   tile, options));
    }
  }
  Emitter family = byFamily({"conv_warpgroup"});
  ByteConv large{.height = 28, .width = 28, .channels = 128, .columns = 128, .images = 256};
  llvm::Expected<std::string> ptx =
      emitTestPtx(byteConvText(large), family, target::targetOf("sm_90a"));
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find("k32.s32.u8.s8"), std::string::npos);
  EXPECT_TRUE(assembles(*ptx, target::targetOf("sm_90a")));
  large.channels = 8;
  ptx = emitTestPtx(byteConvText(large), family, target::targetOf("sm_90a"));
  EXPECT_FALSE(ptx);
  llvm::consumeError(ptx.takeError());
}

TEST(CudaIntegerGemmTest, DepthwiseConvolutionsOfBytes) {
  Emitter depthwise = byFamily({"conv_depthwise"});
  for (const char *type : {"ui8", "i8"}) {
    EXPECT_TRUE(
        matchesReference(byteConvText({.type = type, .channels = 24, .columns = 24, .groups = 24}),
                         depthwise, convBytes()));
    EXPECT_TRUE(matchesReference(byteConvText({.type = type,
                                               .channels = 8,
                                               .columns = 8,
                                               .groups = 8,
                                               .taps = 5,
                                               .stride = 2,
                                               .pad = 2,
                                               .isRequantized = false}),
                                 depthwise, convBytes()));
    EXPECT_TRUE(
        matchesReference(byteConvText({.type = type, .channels = 5, .columns = 10, .groups = 5}),
                         depthwise, convBytes()));
  }
  // The largest sums that f32 holds the bits of.
  RunOptions largest = convBytes();
  largest.edit = [](llvm::MutableArrayRef<reference::Tensor> inputs) {
    for (size_t input : {0, 1}) {
      std::memset(inputs[input].mutableBytes(), input == 0 ? 255 : 128, inputs[input].byteCount());
    }
  };
  EXPECT_TRUE(matchesReference(byteConvText({.height = 13,
                                             .width = 12,
                                             .channels = 8,
                                             .columns = 8,
                                             .groups = 8,
                                             .taps = 11,
                                             .pad = 0,
                                             .isRequantized = false}),
                               depthwise, largest));
  EXPECT_FALSE(matchesReference(byteConvText({.height = 13,
                                              .width = 12,
                                              .channels = 8,
                                              .columns = 8,
                                              .groups = 8,
                                              .taps = 12,
                                              .pad = 0,
                                              .isRequantized = false}),
                                depthwise, largest));
}

TEST(CudaIntegerGemmTest, Assembles) {
  for (const char *name : {"sm_80", "sm_86", "sm_90", "sm_90a"}) {
    const target::Target &gpu = target::targetOf(name);
    for (const std::string &text :
         {textOf({1024, 1024, 1024}), textOf({16, 4096, 4096, false, true}),
          textOf({1001, 999, 1001}), textOf({8192, 8192, 1024}), convText(64, 64, 1)}) {
      llvm::Expected<std::string> ptx =
          emitTestPtx(text, byFamily({"gemm_tensorcore", "gemm_simt", "conv_tensorcore"}), gpu);
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      testing::AssertionResult result = assembles(*ptx, gpu);
      EXPECT_TRUE(result) << name << result.message();
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda

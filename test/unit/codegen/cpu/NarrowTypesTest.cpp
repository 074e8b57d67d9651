// Fused regions of 16-bit floats, integers and bools: each value is rounded to its type, strips of
// every width and their tails. Relies on inputs in [-2, 2), and integers of 0 to 2.
#include "test/unit/codegen/RegionCheck.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tenon::codegen::cpu {
namespace {

std::string ofType(const std::string &dims, const std::string &element) {
  return "tensor<" + dims + element + ">";
}

/// Replaces "$t" by the tensor type of `dims` and `element`, "$e" by the element.
std::string withTypes(std::string text, const std::string &dims, const std::string &element) {
  for (auto [name, value] : {std::pair("$t", ofType(dims, element)), std::pair("$e", element)}) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
      text.replace(at, 2, value);
    }
  }
  return text;
}

/// A region of values of one type.
std::string chain(const std::string &signature, const std::string &body, const std::string &dims,
                  const std::string &element, const std::string &strategy = "elementwise") {
  return kernelText(strategy, withTypes(signature, dims, element), withTypes(body, dims, element));
}

TEST(NarrowTypesTest, ChainsRoundAfterEachOperation) {
  // What is added and taken away again leaves a whole number, if the sum was rounded.
  for (auto [element, large] : {std::pair("f16", "1024.0"), std::pair("bf16", "128.0")}) {
    std::string constant =
        std::string("%c = tn.constant dense<") + large + "> : tensor<$e> : tensor<$e>\n";
    std::string body = constant + "%0 = tn.add %a, %c : ($t, tensor<$e>) -> $t\n"
                                  "%1 = tn.sub %0, %c : ($t, tensor<$e>) -> $t\n"
                                  "%2 = tn.mul %1, %b : ($t, $t) -> $t\n"
                                  "%3 = tn.max %2, %1 : ($t, $t) -> $t\n"
                                  "%4 = tn.exp %3 : $t\n"
                                  "%5 = tn.div %4, %3 : ($t, $t) -> $t\n"
                                  "return %5, %1 : $t, $t";
    for (const char *dims : {"5x", "3x37x", "16x", "1000x", "2x8x64x"}) {
      EXPECT_TRUE(matchesReference(chain("(%a: $t, %b: $t) -> ($t, $t)", body, dims, element)))
          << element << dims;
    }
  }
}

TEST(NarrowTypesTest, RoundingsOfExactValuesAreLeftOut) {
  for (const char *element : {"f16", "bf16"}) {
    std::string body = "%z = tn.constant dense<0.1> : tensor<$e> : tensor<$e>\n"
                       "%0 = tn.relu %a : $t\n"
                       "%1 = tn.neg %0 : $t\n"
                       "%2 = tn.max %1, %b : ($t, $t) -> $t\n"
                       "%3 = tn.floor %b : $t\n"
                       "%4 = tn.min %2, %3 : ($t, $t) -> $t\n"
                       "%5 = tn.compare %4 <lt> %z : ($t, tensor<$e>) -> tensor<77xi1>\n"
                       "%6 = tn.select %5, %4, %z : (tensor<77xi1>, $t, tensor<$e>) -> $t\n"
                       "%7 = tn.mul %6, %a : ($t, $t) -> $t\n"
                       "return %7 : $t";
    auto change = [](std::vector<reference::Tensor> &inputs) {
      // NaN, infinity and the least number of either type, by their bits.
      const uint16_t bits[] = {0x7fff, 0x7c00, 0x0001, 0x8000, 0xff80, 0x7f80};
      for (int64_t i = 0; i < inputs[0].count(); i += 5) {
        memcpy(inputs[0].mutableBytes() + 2 * i, &bits[i % 6], 2);
      }
    };
    EXPECT_TRUE(
        matchesReference(chain("(%a: $t, %b: $t) -> $t", body, "77x", element), {}, 2, 0, change))
        << element;
  }
}

TEST(NarrowTypesTest, IntegersOfEveryWidth) {
  for (const char *element : {"i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"}) {
    std::string body = "%c = tn.constant dense<3> : tensor<$e> : tensor<$e>\n"
                       "%0 = tn.mul %a, %c : ($t, tensor<$e>) -> $t\n"
                       "%1 = tn.sub %0, %b : ($t, $t) -> $t\n"
                       "%2 = tn.max %1, %a : ($t, $t) -> $t\n"
                       "%3 = tn.mul %2, %1 : ($t, $t) -> $t\n"
                       "%4 = tn.min %3, %b : ($t, $t) -> $t\n"
                       "return %4, %3 : $t, $t";
    for (const char *dims : {"7x", "31x", "32x", "101x", "2x130x", "5000x"}) {
      EXPECT_TRUE(matchesReference(chain("(%a: $t, %b: $t) -> ($t, $t)", body, dims, element)))
          << element << dims;
    }
  }
}

TEST(NarrowTypesTest, RowsOfIntegersThatRepeat) {
  for (const char *element : {"i8", "ui16", "i32"}) {
    for (auto [outer, inner] :
         {std::pair("3x", "45x"), std::pair("2x", "64x"), std::pair("9x", "131x")}) {
      std::string row = ofType(inner, element), all = ofType(outer + std::string(inner), element);
      EXPECT_TRUE(matchesReference(
          kernelText("elementwise", "(%a: " + all + ", %b: " + row + ") -> " + all,
                     llvm::formatv("%0 = tn.add %a, %b : ({0}, {1}) -> {0}\n%1 = tn.mul %0, %a : "
                                   "({0}, {0}) -> {0}\nreturn %1 : {0}",
                                   all, row))));
    }
  }
}

TEST(NarrowTypesTest, DivisionsOfEveryWidth) {
  for (const char *element : {"i8", "ui8", "i16", "i32", "ui32", "i64", "ui64"}) {
    std::string body = "%c = tn.constant dense<1> : tensor<$e> : tensor<$e>\n"
                       "%s = tn.constant dense<41> : tensor<$e> : tensor<$e>\n"
                       "%0 = tn.add %b, %c : ($t, tensor<$e>) -> $t\n"
                       "%1 = tn.mul %a, %s : ($t, tensor<$e>) -> $t\n"
                       "%2 = tn.div %1, %0 : ($t, $t) -> $t\n"
                       "%3 = tn.mod %1, %0 : ($t, $t) -> $t\n"
                       "return %2, %3 : $t, $t";
    for (const char *dims : {"5x", "16x", "77x"}) {
      EXPECT_TRUE(matchesReference(chain("(%a: $t, %b: $t) -> ($t, $t)", body, dims, element)))
          << element << dims;
    }
  }
}

TEST(NarrowTypesTest, MasksOfBools) {
  for (const char *dims : {"9x", "64x", "200x", "3x33x"}) {
    std::string body = "%0 = tn.not %a : $t\n"
                       "%1 = tn.and %0, %b : ($t, $t) -> $t\n"
                       "%2 = tn.or %1, %a : ($t, $t) -> $t\n"
                       "%3 = tn.xor %2, %b : ($t, $t) -> $t\n"
                       "return %3 : $t";
    EXPECT_TRUE(matchesReference(chain("(%a: $t, %b: $t) -> $t", body, dims, "i1"))) << dims;
  }
}

TEST(NarrowTypesTest, TypesMixedByCasts) {
  EXPECT_TRUE(
      matchesReference(kernelText("elementwise",
                                  "(%a: tensor<3x67xi8>, %b: tensor<67xf16>, %m: tensor<3x67xi1>) "
                                  "-> (tensor<3x67xi64>, tensor<3x67xbf16>)",
                                  R"(%c = tn.constant dense<0> : tensor<i8> : tensor<i8>
    %0 = tn.cast %a : (tensor<3x67xi8>) -> tensor<3x67xf32>
    %1 = tn.cast %b : (tensor<67xf16>) -> tensor<67xf32>
    %2 = tn.mul %0, %1 : (tensor<3x67xf32>, tensor<67xf32>) -> tensor<3x67xf32>
    %3 = tn.cast %2 : (tensor<3x67xf32>) -> tensor<3x67xbf16>
    %4 = tn.cast %3 : (tensor<3x67xbf16>) -> tensor<3x67xi8>
    %5 = tn.select %m, %4, %c : (tensor<3x67xi1>, tensor<3x67xi8>, tensor<i8>) -> tensor<3x67xi8>
    %6 = tn.cast %5 : (tensor<3x67xi8>) -> tensor<3x67xi64>
    return %6, %3 : tensor<3x67xi64>, tensor<3x67xbf16>)")));
}

/// Adds to a quantized tensor and quantizes the sum, held between two numbers: what the optimizer
/// makes of quantization.
std::string quantizedSum(const std::string &dims, const std::string &element,
                         const std::string &low, const std::string &high) {
  std::string body = "%low = tn.constant dense<" + low +
                     "> : tensor<f32> : tensor<f32>\n%high = tn.constant dense<" + high +
                     "> : tensor<f32> : tensor<f32>\n" + R"(
    %0 = tn.cast %a : ($t) -> F
    %1 = tn.mul %0, %s : (F, tensor<f32>) -> F
    %2 = tn.add %1, %b : (F, F) -> F
    %3 = tn.neg %2 : F
    %4 = tn.div %3, %s : (F, tensor<f32>) -> F
    %5 = tn.round %4 : F
    %6 = tn.compare %5 <gt> %low : (F, tensor<f32>) -> M
    %7 = tn.select %6, %5, %low : (M, F, tensor<f32>) -> F
    %8 = tn.compare %7 <lt> %high : (F, tensor<f32>) -> M
    %9 = tn.select %8, %7, %high : (M, F, tensor<f32>) -> F
    %10 = tn.cast %9 : (F) -> $t
    return %10 : $t)";
  std::string real = ofType(dims, "f32"), mask = ofType(dims, "i1");
  for (auto [name, type] : {std::pair("F", real), std::pair("M", mask)}) {
    for (size_t at = body.find(name); at != std::string::npos;
         at = body.find(name, at + type.size())) {
      body.replace(at, 1, type);
    }
  }
  return chain("(%a: $t, %b: " + real + ", %s: tensor<f32>) -> $t", body, dims, element);
}

TEST(NarrowTypesTest, QuantizedSumsSaturate) {
  const float numbers[] = {NAN,   INFINITY, -INFINITY, 1e30f,  -1e30f,  0.5f,  1.5f,
                           -0.0f, 300,      -300,      254.5f, -254.5f, 126.5f};
  // Those of the type, and bounds beyond it that leave the saturation to the cast.
  for (auto [element, low, high] :
       {std::tuple("i8", "-128.0", "127.0"), std::tuple("ui8", "0.0", "255.0"),
        std::tuple("i8", "-300.0", "260.0"), std::tuple("ui8", "-7.0", "299.0")}) {
    for (const char *dims : {"45x", "3x40x", "1024x"}) {
      EXPECT_TRUE(matchesReference(quantizedSum(dims, element, low, high), {}, 2, 0,
                                   [&](auto &inputs) {
                                     for (int64_t i = 0; i < inputs[1].count(); ++i) {
                                       inputs[1].template as<float>()[i] =
                                           numbers[i % std::size(numbers)];
                                     }
                                     inputs[2].template as<float>()[0] = 1;
                                   }))
          << element << dims << high;
    }
  }
}

TEST(NarrowTypesTest, CastsToIntegersSaturate) {
  const float numbers[] = {NAN,    INFINITY, -INFINITY, 1e30f,         -1e30f,
                           127.9f, -128.9f,  255.9f,    2147483648.0f, -0.5f};
  for (const char *element : {"i8", "ui8", "i16", "i32", "ui32", "i64"}) {
    EXPECT_TRUE(matchesReference(
        chain("(%a: tensor<43xf32>) -> $t",
              "%0 = tn.cast %a : (tensor<43xf32>) -> $t\nreturn %0 : $t", "43x", element),
        {}, 2, 0,
        [&](auto &inputs) {
          for (int64_t i = 0; i < inputs[0].count(); ++i) {
            inputs[0].template as<float>()[i] = numbers[i % std::size(numbers)];
          }
        }))
        << element;
  }
}

TEST(NarrowTypesTest, NormsTakeNeighboursOfTheirType) {
  for (const char *element : {"f16", "bf16"}) {
    for (const char *root : {"tn.layer_norm %0 scale %s {axis = 1 : i64, epsilon = 1.0e-05 : f64, "
                             "operandSegmentSizes = "
                             "array<i32: 1, 1, 0>} : ($t, tensor<77x$e>) -> $t",
                             "tn.rms_norm %0 scale %s {axis = 1 : i64, epsilon = 1.0e-05 : f64} : "
                             "($t, tensor<77x$e>) -> $t",
                             "tn.softmax %0 {axis = 1 : i64} : $t"}) {
      std::string body = "%0 = tn.add %a, %b : ($t, $t) -> $t\n%1 = " + std::string(root) +
                         "\n%2 = tn.relu %1 : $t\n%3 = tn.cast %2 : ($t) -> tensor<5x77xf32>\n"
                         "return %0, %2, %3 : $t, $t, tensor<5x77xf32>";
      EXPECT_TRUE(matchesReference(
          chain("(%a: $t, %b: $t, %s: tensor<77x$e>) -> ($t, $t, tensor<5x77xf32>)", body, "5x77x",
                element, "rows")))
          << element << root;
    }
  }
}

TEST(NarrowTypesTest, NormsOfWiderNeighbours) {
  // A row is read as bytes and left as halves.
  EXPECT_TRUE(matchesReference(
      kernelText("rows", "(%a: tensor<4x50xui8>, %s: tensor<f32>) -> tensor<4x50xf16>",
                 R"(%0 = tn.cast %a : (tensor<4x50xui8>) -> tensor<4x50xf32>
    %1 = tn.mul %0, %s : (tensor<4x50xf32>, tensor<f32>) -> tensor<4x50xf32>
    %2 = tn.layer_norm %1 {axis = 1 : i64, epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x50xf32>) -> tensor<4x50xf32>
    %3 = tn.cast %2 : (tensor<4x50xf32>) -> tensor<4x50xf16>
    return %3 : tensor<4x50xf16>)")));
}

TEST(NarrowTypesTest, ReductionsTakeNeighboursOfTheirType) {
  for (const char *element : {"f16", "bf16", "i8", "ui8", "i16", "i32", "i64"}) {
    for (const char *kind : {"sum", "max", "min", "mean"}) {
      std::string one = withTypes("tensor<6x1x$e>", "", element);
      std::string body = "%0 = tn.add %a, %b : ($t, $t) -> $t\n%1 = tn.reduce <" +
                         std::string(kind) +
                         "> %0 {axes = array<i64: 1>, keepdims = true} : ($t) -> " + one +
                         "\n%2 = tn.add %1, %1 : (" + one + ", " + one + ") -> " + one +
                         "\nreturn %2, %0 : " + one + ", $t";
      for (const char *dims : {"6x29x", "6x200x"}) {
        EXPECT_TRUE(matchesReference(
            chain("(%a: $t, %b: $t) -> (" + one + ", $t)", body, dims, element, "rows")))
            << element << kind << dims;
      }
    }
  }
}

TEST(NarrowTypesTest, ProductsEndInOtherTypes) {
  for (const char *element : {"f32", "f16", "bf16", "i32"}) {
    bool isFloat = element[0] != 'i';
    std::string head = "%0 = tn.matmul %x, %w : (tensor<21x40x$e>, tensor<40x45x$e>) -> $t\n"
                       "%1 = tn.add %0, %b : ($t, tensor<45x$e>) -> $t\n%2 = tn.relu %1 : $t\n";
    std::string signature =
        "(%x: tensor<21x40x$e>, %w: tensor<40x45x$e>, %b: tensor<45x$e>, %m: tensor<21x45xi1>)";
    EXPECT_TRUE(matchesReference(chain(signature + " -> $t",
                                       head + "%3 = tn.add %2, %1 : ($t, $t) -> $t\nreturn %3 : $t",
                                       "21x45x", element, "contraction")))
        << element;
    std::string number = isFloat ? "200.0" : "200";
    std::string tail =
        "%c = tn.constant dense<true> : tensor<i1> : tensor<i1>\n%k = tn.constant dense<250> : "
        "tensor<ui8> : "
        "tensor<ui8>\n%n = tn.constant dense<" +
        number + "> : tensor<$e> : tensor<$e>\n%3 = tn.min %2, %n : ($t, tensor<$e>) -> $t\n" + R"(
      %4 = tn.cast %3 : ($t) -> tensor<21x45xui8>
      %5 = tn.xor %m, %c : (tensor<21x45xi1>, tensor<i1>) -> tensor<21x45xi1>
      %6 = tn.select %5, %4, %k : (tensor<21x45xi1>, tensor<21x45xui8>, tensor<ui8>) -> tensor<21x45xui8>
      return %6 : tensor<21x45xui8>)";
    // The sums are whole numbers, which no order of additions changes.
    auto whole = [](std::vector<reference::Tensor> &inputs) {
      for (size_t i = 0; i < 3; ++i) {
        reference::Tensor wide = *reference::convert(inputs[i], DType::F64);
        for (int64_t k = 0; k < wide.count(); ++k) {
          wide.as<double>()[k] = std::nearbyint(wide.as<double>()[k]);
        }
        inputs[i] = *reference::convert(wide, inputs[i].dtype());
      }
    };
    EXPECT_TRUE(matchesReference(
        chain(signature + " -> tensor<21x45xui8>", head + tail, "21x45x", element, "contraction"),
        {}, 3, 0, whole))
        << element;
  }
}

TEST(NarrowTypesTest, ConvolutionsEndInOtherTypes) {
  for (const char *element : {"f32", "f16", "bf16", "i32"}) {
    for (auto [groups, channels, strategy] :
         {std::tuple("1", "6", "contraction"), std::tuple("6", "1", "depthwise")}) {
      std::string weight = "tensor<6x" + std::string(channels) + "x3x3x$e>",
                  to = "tensor<1x7x9x6xf32>";
      // Between a product of bf16 and what it is added to, f32 may stay; a cast rounds.
      bool isAdded = std::string(element) != "bf16" || std::string(strategy) != "contraction";
      std::string body =
          "%0 = tn.conv %x, %w bias %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, "
          "dilations "
          "= array<i64: 1, 1>, groups = " +
          std::string(groups) + " : i64, channelsLast = true} : ($t, " + weight +
          ", tensor<6x$e>) -> $t\n%1 = tn.add %0, %x : ($t, $t) -> $t\n%2 = tn.cast " +
          (isAdded ? "%1" : "%0") + " : ($t) -> " + to + "\n%3 = tn.sigmoid %2 : " + to +
          "\nreturn %3 : " + to;
      EXPECT_TRUE(matchesReference(chain("(%x: $t, %w: " + weight + ", %b: tensor<6x$e>) -> " + to,
                                         body, "1x7x9x6x", element, strategy)))
          << element << strategy;
    }
  }
}

} // namespace
} // namespace tenon::codegen::cpu

// The rows, in the order of TnOps.td. Relies on RowCase.h for what a form makes of a row.
#include "test/ops/Table.h"

namespace tenon::ops {
namespace {

constexpr char kFloats[] = "f32 f64 f16 bf16";
constexpr char kNumbers[] = "f32 f64 f16 bf16 i8 i16 i32 i64 ui8 ui16 ui32 ui64";
constexpr char kSigned[] = "f32 f16 i8 i32 i64";
constexpr char kBits[] = "i1 i8 i16 i32 i64 ui8 ui16 ui32 ui64";
constexpr char kUnsigned[] = "ui8 ui16 ui32 ui64";
constexpr char kValues[] = "f32 f64 f16 bf16 i1 i8 i16 i32 i64 ui8 ui16 ui32 ui64";
constexpr char kLowFloats[] = "f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU f4E2M1FN";
constexpr char kLowIntegers[] = "i4 ui4 i2 ui2";
/// For what only moves elements: one type of each width, and bool.
constexpr char kMoved[] = "f32 f16 i1 i8 i64";

OpRow unary(const char *op, const char *dtypes, double low = -2, double high = 2,
            const char *attributes = "") {
  return {op, dtypes, {{"3, N", "T", low, high}}, {{"3, N"}}, attributes};
}

OpRow binary(const char *op, const char *dtypes, double low = -2, double high = 2,
             const char *attributes = "") {
  return {op, dtypes, {{"3, N"}, {"N", "T", low, high}}, {{"3, N"}}, attributes};
}

OpRow compare(const char *dtypes, const char *attributes) {
  return {"tn.compare", dtypes, {{"3, N"}, {"3, 1"}}, {{"3, N", "i1"}}, attributes};
}

OpRow cast(const char *dtypes, const char *to, double low = -9) {
  return {"tn.cast", dtypes, {{"3, N", "T", low, 9}}, {{"3, N", to}}};
}

} // namespace

const std::vector<OpRow> &opTable() {
  // clang-format off: a row is read as a line.
  static const std::vector<OpRow> table = {
      {"tn.sizes", "i64 i32", {}, {{"2"}}, "values = affine_map<()[N] -> (N * 2, 5)>"},

      unary("tn.abs", kNumbers),
      unary("tn.neg", kNumbers),
      unary("tn.exp", kFloats),
      unary("tn.log", kFloats, 0.1, 4),
      unary("tn.sqrt", kFloats, 0, 4),
      unary("tn.rsqrt", kFloats, 0.1, 4),
      unary("tn.reciprocal", kFloats, 0.1, 4),
      unary("tn.sin", kFloats),
      unary("tn.cos", kFloats),
      unary("tn.tan", kFloats, -1.4, 1.4),
      unary("tn.asin", kFloats, -1, 1),
      unary("tn.acos", kFloats, -1, 1),
      unary("tn.atan", kFloats),
      unary("tn.sinh", kFloats),
      unary("tn.cosh", kFloats),
      unary("tn.tanh", kFloats),
      unary("tn.asinh", kFloats),
      unary("tn.acosh", kFloats, 1, 4),
      unary("tn.atanh", kFloats, -0.9, 0.9),
      unary("tn.erf", kFloats),
      unary("tn.ceil", kFloats),
      unary("tn.floor", kFloats),
      unary("tn.round", kFloats),
      unary("tn.sign", kNumbers, -kEverything, kEverything),
      unary("tn.not", kBits),
      unary("tn.relu", kNumbers, -kEverything, kEverything),
      unary("tn.sigmoid", kFloats),
      unary("tn.silu", kFloats),
      unary("tn.gelu", kFloats),
      unary("tn.gelu", kFloats, -2, 2, "approximate"),
      unary("tn.softplus", kFloats),
      unary("tn.leaky_relu", kFloats, -2, 2, "alpha = 0.1 : f64"),
      unary("tn.elu", kFloats, -2, 2, "alpha = 0.7 : f64"),
      unary("tn.hard_sigmoid", kFloats, -4, 4, "alpha = 0.2 : f64, beta = 0.5 : f64"),
      unary("tn.clamp", kNumbers, -kEverything, kEverything, "lo = -1.0 : f64, hi = 1.0 : f64"),
      {"tn.is_nan", kFloats, {{"3, N", "T", -kEverything, kEverything}}, {{"3, N", "i1"}}},
      {"tn.is_inf", kFloats, {{"3, N", "T", -kEverything, kEverything}}, {{"3, N", "i1"}},
       "positive = true, negative = false"},
      cast(kValues, "f32"),
      cast(kValues, "f16"),
      cast(kValues, "i1"),
      cast(kValues, "i32"),
      cast(kFloats, "ui8", 0),

      binary("tn.add", kNumbers),
      binary("tn.sub", kNumbers),
      binary("tn.mul", kNumbers),
      binary("tn.div", kNumbers, 0.5, 3),
      binary("tn.div", kSigned, -3, -1),
      binary("tn.mod", kNumbers, 1, 3),
      binary("tn.mod", kSigned, -3, -1),
      binary("tn.mod", kSigned, -3, -1, "fmod"),
      {"tn.pow", kFloats, {{"3, N", "T", 0.1, 3}, {"N"}}, {{"3, N"}}},
      {"tn.pow", "i32 i64 f32", {{"3, N", "T", -3, 3}, {"N", "i32", 0, 5}}, {{"3, N"}}},
      binary("tn.max", kNumbers, -kEverything, kEverything),
      binary("tn.min", kNumbers, -kEverything, kEverything),
      binary("tn.and", kBits),
      binary("tn.or", kBits),
      binary("tn.xor", kBits),
      {"tn.shift", kUnsigned, {{"3, N", "T", 0, 200}, {"N", "T", 0, 9}}, {{"3, N"}}},
      {"tn.shift", kUnsigned, {{"3, N", "T", 0, 200}, {"N", "T", 0, 9}}, {{"3, N"}}, "left"},
      compare(kValues, "predicate = #tn.predicate<lt>"),
      compare("f32 i1 i8 ui8", "predicate = #tn.predicate<eq>"),
      compare("f32 i8 ui8", "predicate = #tn.predicate<ne>"),
      compare("f32 i8 ui8", "predicate = #tn.predicate<le>"),
      compare("f32 i8 ui8", "predicate = #tn.predicate<gt>"),
      compare("f32 i8 ui8", "predicate = #tn.predicate<ge>"),
      {"tn.select", kMoved, {{"3, N", "i1"}, {"3, N"}, {"N"}}, {{"3, N"}}},
      {"tn.require", kMoved, {{"3, N"}, {"", "i1", 1, 1}}, {{"3, N"}}, "what = \"it holds\""},

      {"tn.reduce", kNumbers, {{"3, N"}}, {{"3"}},
       "kind = #tn.reduce_kind<sum>, axes = array<i64: 1>, keepdims = false"},
      {"tn.reduce", kFloats, {{"3, N, 5"}}, {{"3, 1, 1"}},
       "kind = #tn.reduce_kind<mean>, axes = array<i64: 1, 2>, keepdims = true"},
      {"tn.reduce", "f32 i8", {{"3, N, 5"}}, {{"N, 5"}},
       "kind = #tn.reduce_kind<max>, axes = array<i64: 0>, keepdims = false"},
      {"tn.reduce", "f32 ui8", {{"3, N, 5"}}, {{"3, N"}},
       "kind = #tn.reduce_kind<min>, axes = array<i64: 2>, keepdims = false"},
      {"tn.reduce", "f32 i32", {{"3, N, 5"}}, {{"3, N"}},
       "kind = #tn.reduce_kind<prod>, axes = array<i64: 2>, keepdims = false"},
      {"tn.arg_reduce", kNumbers, {{"3, N"}}, {{"3", "i64"}},
       "axis = 1 : i64, keepdims = false, largest = true, lastIndex = false"},
      {"tn.arg_reduce", "f32 i8 ui8", {{"3, N"}}, {{"1, N", "i64"}},
       "axis = 0 : i64, keepdims = true, largest = false, lastIndex = true"},
      {"tn.cumsum", kNumbers, {{"3, N"}}, {{"3, N"}},
       "axis = 1 : i64, exclusive = false, reverse = false"},
      {"tn.cumsum", "f32", {{"3, N, 0"}}, {{"3, N, 0"}},
       "axis = 2 : i64, exclusive = false, reverse = false"},
      {"tn.cumsum", "f32", {{"3, N"}}, {{"3, N"}},
       "axis = 0 : i64, exclusive = true, reverse = true"},
      {"tn.cumsum", "f32 f16 i8", {{"2, 300, N"}}, {{"2, 300, N"}},
       "axis = 1 : i64, exclusive = true, reverse = false"},
      {"tn.softmax", kFloats, {{"3, N"}}, {{"3, N"}}, "axis = 1 : i64"},
      {"tn.softmax", "f32", {{"3, N"}}, {{"3, N"}}, "axis = 0 : i64, log"},
      {"tn.layer_norm", kFloats, {{"3, N, 20"}, {"20"}, {"20"}}, {{"3, N, 20"}},
       "axis = 2 : i64, epsilon = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 1, 1>"},
      {"tn.rms_norm", kFloats, {{"3, N, 20"}, {"20"}}, {{"3, N, 20"}},
       "axis = 2 : i64, epsilon = 1.0e-5 : f64"},
      {"tn.group_norm", kFloats, {{"2, 4, 3, N"}, {"4"}, {"4"}}, {{"2, 4, 3, N"}},
       "groups = 2 : i64, epsilon = 1.0e-5 : f64"},
      {"tn.batch_norm", kFloats, {{"2, 3, N"}, {"3"}, {"3"}, {"3"}, {"3", "T", 0.2, 2}}, {{"2, 3, N"}},
       "epsilon = 1.0e-5 : f64, channelsLast = false"},
      {"tn.batch_norm", "f32", {{"2, N, 3"}, {"3"}, {"3"}, {"3"}, {"3", "T", 0.2, 2}}, {{"2, N, 3"}},
       "epsilon = 1.0e-5 : f64, channelsLast = true"},

      {"tn.matmul", kNumbers, {{"2, N, 21"}, {"21, 33"}}, {{"2, N, 33"}}},
      {"tn.matmul", "f32 f16 i32", {{"2, 21, N"}, {"2, 33, 21"}}, {{"2, N, 33"}},
       "transposeA, transposeB"},
      {"tn.conv", "f32 f64 f16 bf16 i16 i32 i64 ui8 ui16 ui32 ui64", {{"2, 4, 9, N"}, {"6, 4, 3, 3"}, {"6"}}, {{"2, 6, 9, N"}},
       "strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, "
       "groups = 1 : i64, channelsLast = false"},
      {"tn.conv", "ui8 i8", {{"2, 4, 9, N"}, {"6, 4, 3, 3", "i8"}, {"6", "i32"}}, {{"2, 6, 9, N", "i32"}},
       "strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, "
       "groups = 1 : i64, channelsLast = false"},
      {"tn.conv", "i8", {{"2, N, 9, 8"}, {"12, 8, 3, 3", "i8"}}, {{"2, N, 9, 12", "i32"}},
       "strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, "
       "groups = 1 : i64, channelsLast = true"},
      {"tn.conv", "f32 f16 i32", {{"2, N, 9, 4"}, {"6, 2, 3, 1"}}, {{"2, (N - 1) floordiv 2 + 1, 9, 6"}},
       "strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 0>, dilations = array<i64: 1, 1>, "
       "groups = 2 : i64, channelsLast = true"},
      {"tn.conv", "f32 f16", {{"2, N, 9, 4"}, {"4, 1, 3, 3"}}, {{"2, N, 9, 4"}},
       "strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 2, 2>, "
       "groups = 4 : i64, channelsLast = true"},
      {"tn.conv", "f32", {{"2, 4, N"}, {"6, 4, 3"}, {"6"}}, {{"2, 6, N"}},
       "strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, "
       "groups = 1 : i64, channelsLast = false"},
      {"tn.conv", "f32 f16", {{"1, 4, 5, N, 3"}, {"5, 3, 3, 2, 3"}}, {{"1, 4, 3, N, 5"}},
       "strides = array<i64: 1, 2, 1>, pads = array<i64: 1, 0, 1, 1, 1, 1>, dilations = array<i64: 1, 1, 1>, "
       "groups = 1 : i64, channelsLast = true"},
      {"tn.conv", "f32 f16", {{"1, 7, N * 20, 2"}, {"34, 2, 3, 3"}}, {{"1, 7, N * 20, 34"}},
       "strides = array<i64: 1, 1>, pads = array<i64: 3, 4, 3, 4>, dilations = array<i64: 3, 4>, "
       "groups = 1 : i64, channelsLast = true"},
      {"tn.conv_transpose", kFloats, {{"2, 4, 5, N"}, {"4, 3, 3, 3"}, {"6"}}, {{"2, 6, 10, N * 2"}},
       "strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, "
       "outputPadding = array<i64: 1, 1>, groups = 2 : i64"},
      {"tn.attention", kFloats, {{"2, 4, N, 8"}, {"2, 2, 11, 8"}, {"2, 2, 11, 16"}, {"N, 11"}},
       {{"2, 4, N, 16"}},
       "scale = 0.35 : f64, causal = false, headsInner = array<i1: false, false, false, false>, "
       "operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>"},
      {"tn.attention", "f32 f16", {{"2, N, 4, 8"}, {"2, N, 4, 8"}, {"2, N, 4, 8"}}, {{"2, N, 4, 8"}},
       "scale = 0.35 : f64, causal = true, headsInner = array<i1: true, true, true, true>, "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>"},
      {"tn.attention", "f32 f16", {{"1, N, 4, 8"}, {"1, 40, 2, 8"}, {"1, 40, 2, 8"}, {"1", "i64", 0, 30}},
       {{"1, N, 4, 8"}},
       "scale = 0.35 : f64, causal = true, headsInner = array<i1: true, true, true, true>, window = 9 : i64, "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>"},

      {"tn.max_pool", kNumbers, {{"2, 3, 9, N"}}, {{"2, 3, 5, (N - 1) floordiv 2 + 1"}},
       "kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, "
       "dilations = array<i64: 1, 1>, ceilMode = false, channelsLast = false"},
      {"tn.max_pool", "f32 ui8", {{"2, N, 9, 5"}}, {{"2, N, 9, 5"}},
       "kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, "
       "dilations = array<i64: 2, 2>, ceilMode = false, channelsLast = true"},
      {"tn.avg_pool", kFloats, {{"2, 3, 9, N"}}, {{"2, 3, 5, (N - 1) floordiv 2 + 1"}},
       "kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, "
       "dilations = array<i64: 1, 1>, ceilMode = false, countIncludePad = false, channelsLast = false"},
      {"tn.avg_pool", "f32", {{"2, N, 9, 5"}}, {{"2, N, 9, 5"}},
       "kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, "
       "dilations = array<i64: 1, 1>, ceilMode = false, countIncludePad = true, channelsLast = true"},
      {"tn.resize", "f32 f16 i8", {{"2, N", "T", -9, 9}}, {{"2, N * 2"}},
       "mode = #tn.resize_mode<nearest>, coordinates = \"asymmetric\", nearest = \"floor\", "
       "scales = array<f64: 1.0, 2.0>, cubicA = -0.75 : f64, excludeOutside = false, "
       "antialias = false, extrapolation = 0.0 : f64, roi = array<f64>"},
      {"tn.resize", kFloats, {{"2, N"}}, {{"2, N * 2"}},
       "mode = #tn.resize_mode<linear>, coordinates = \"half_pixel\", nearest = \"floor\", "
       "scales = array<f64: 1.0, 2.0>, cubicA = -0.75 : f64, excludeOutside = false, "
       "antialias = false, extrapolation = 0.0 : f64, roi = array<f64>"},
      {"tn.resize", "f32", {{"6, N"}}, {{"4, N * 2"}},
       "mode = #tn.resize_mode<cubic>, coordinates = \"pytorch_half_pixel\", nearest = \"floor\", "
       "scales = array<f64: 0.7, 2.0>, cubicA = -0.5 : f64, excludeOutside = true, "
       "antialias = true, extrapolation = 0.0 : f64, roi = array<f64>"},

      {"tn.transpose", kMoved, {{"3, N, 5"}}, {{"N, 5, 3"}}, "permutation = array<i64: 1, 2, 0>"},
      {"tn.broadcast", kMoved, {{"3, 1, N"}}, {{"2, 3, 4, N"}}},
      {"tn.concat", kMoved, {{"3, N"}, {"3, 4"}, {"3, N"}}, {{"3, N * 2 + 4"}}, "axis = 1 : i64"},
      {"tn.slice", kMoved, {{"5, N"}}, {{"2, N - 3"}},
       "starts = affine_map<()[N] -> (4, 3)>, steps = array<i64: -2, 1>"},
      {"tn.pad", kMoved, {{"3, N"}, {""}}, {{"4, N + 5"}},
       "begins = array<i64: 2, 2>, ends = array<i64: -1, 3>, mode = #tn.pad_mode<constant>"},
      {"tn.pad", kMoved, {{"2, 3, N, 5"}, {""}}, {{"3, 6, N + 5, 5"}},
       "begins = array<i64: 0, 1, 2, 0>, ends = array<i64: 1, 2, 3, 0>, mode = #tn.pad_mode<constant>"},
      {"tn.pad", "f32 ui8 f16", {{"2, N, 70"}}, {{"2, N + 1, 70"}},
       "begins = array<i64: 0, 1, 0>, ends = array<i64: 0, 0, 0>, mode = #tn.pad_mode<constant>"},
      {"tn.pad", "f32", {{"3, N"}}, {{"5, N + 5"}},
       "begins = array<i64: 1, 2>, ends = array<i64: 1, 3>, mode = #tn.pad_mode<edge>"},
      {"tn.pad", "f32", {{"3, N"}}, {{"5, N + 5"}},
       "begins = array<i64: 1, 2>, ends = array<i64: 1, 3>, mode = #tn.pad_mode<reflect>"},
      {"tn.pad", "f32", {{"3, N"}}, {{"5, N + 5"}},
       "begins = array<i64: 1, 2>, ends = array<i64: 1, 3>, mode = #tn.pad_mode<wrap>"},
      {"tn.gather", kMoved, {{"3, 7, N"}, {"2, 4", "i64", -7, 6}}, {{"3, 2, 4, N"}}, "axis = 1 : i64"},
      {"tn.gather", "ui8 i8", {{"256"}, {"N, 33", "i32", -256, 255}}, {{"N, 33"}}, "axis = 0 : i64"},
      {"tn.gather_elements", kMoved, {{"7, N"}, {"4, N", "i32", -7, 6}}, {{"4, N"}}, "axis = 0 : i64"},
      {"tn.gather_nd", kMoved, {{"3, 7, 5, N"}, {"3, 4, 2", "i64", -5, 4}}, {{"3, 4, N"}},
       "batchDims = 1 : i64"},
      {"tn.scatter_elements", kMoved, {{"7, N"}, {"4, N", "i64", -7, 6}, {"4, N"}}, {{"7, N"}},
       "axis = 0 : i64, kind = #tn.scatter_kind<none>"},
      {"tn.scatter_elements", kSigned, {{"7, N"}, {"9, N", "i64", -7, 6}, {"9, N"}}, {{"7, N"}},
       "axis = 0 : i64, kind = #tn.scatter_kind<add>"},
      {"tn.scatter_nd", kMoved, {{"4, 5, N"}, {"6, 2", "i64", -4, 3}, {"6, N"}}, {{"4, 5, N"}},
       "kind = #tn.scatter_kind<none>"},
      {"tn.scatter_nd", "f32 i32", {{"4, 5, N"}, {"6, 2", "i64", -4, 3}, {"6, N"}}, {{"4, 5, N"}},
       "kind = #tn.scatter_kind<max>"},
      // More than one thread writes in order.
      {"tn.scatter_elements", "f32 f16 i8", {{"40, N"}, {"90, N", "i64", -40, 39}, {"90, N"}}, {{"40, N"}},
       "axis = 0 : i64, kind = #tn.scatter_kind<none>"},
      {"tn.scatter_elements", "f32 i8", {{"40, N"}, {"90, N", "i64", -40, 39}, {"90, N"}}, {{"40, N"}},
       "axis = 0 : i64, kind = #tn.scatter_kind<add>"},
      {"tn.scatter_nd", "f32 f16 i32", {{"9, N"}, {"90, 1", "i64", -9, 8}, {"90, N"}}, {{"9, N"}},
       "kind = #tn.scatter_kind<min>"},
      {"tn.iota", "f32 i64 i32 f64", {{"", "T", 1, 2}, {"", "T", 1, 3}}, {{"N"}}},
      {"tn.trilu", kMoved, {{"3, 7, N"}}, {{"3, 7, N"}}, "diagonal = 1 : i64, upper = true"},
      {"tn.trilu", "f32", {{"3, 7, N"}}, {{"3, 7, N"}}, "diagonal = -1 : i64, upper = false"},
      {"tn.top_k", kNumbers, {{"3, 9, N"}}, {{"3, 4, N"}, {"3, 4, N", "i64"}},
       "axis = 1 : i64, largest = true, sorted = true"},
      {"tn.top_k", "f32 i8", {{"3, 25"}}, {{"3, 7"}, {"3, 7", "i64"}},
       "axis = 1 : i64, largest = false, sorted = true"},
      {"tn.top_k", "f32 f16 i64", {{"2, 2100"}}, {{"2, 30"}, {"2, 30", "i64"}},
       "axis = 1 : i64, largest = true, sorted = true"},
      {"tn.top_k", "f32", {{"4, N, 2"}}, {{"4, N, 0"}, {"4, N, 0", "i64"}},
       "axis = 2 : i64, largest = true, sorted = true"},
      // More than is selected in passes.
      {"tn.top_k", kNumbers, {{"2, 25, N"}}, {{"2, 21, N"}, {"2, 21, N", "i64"}},
       "axis = 1 : i64, largest = true, sorted = true"},
      {"tn.top_k", "f32 ui8", {{"3, N"}}, {{"3, N"}, {"3, N", "i64"}},
       "axis = 1 : i64, largest = false, sorted = true"},
      {"tn.top_k", "f32 i8", {{"N"}}, {{"5"}, {"5", "i64"}},
       "axis = 0 : i64, largest = false, sorted = true"},

      {"tn.recurrence", kFloats, {{"N, 3, 21"}, {"21, 21", "T", -0.2, 0.2}, {"3, 21"}}, {{"N, 3, 21"}, {"3, 21"}},
       "cell = \"rnn\", reverse = false, linearBeforeReset = false, activations = [\"relu\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>"},
      {"tn.recurrence", kFloats, {{"N, 3, 60"}, {"20, 60", "T", -0.2, 0.2}, {"3, 20"}, {"20"}, {"3", "i64", -2, 40}},
       {{"N, 3, 20"}, {"3, 20"}},
       "cell = \"gru\", reverse = true, linearBeforeReset = true, activations = [\"sigmoid\", \"tanh\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>"},
      {"tn.recurrence", "f32", {{"5, N, 99"}, {"33, 99", "T", -0.1, 0.1}, {"N, 33"}}, {{"5, N, 33"}, {"N, 33"}},
       "cell = \"gru\", reverse = false, linearBeforeReset = false, activations = [\"softsign\", \"softplus\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>"},
      {"tn.recurrence", kFloats,
       {{"7, N, 272"}, {"68, 272", "T", -0.1, 0.1}, {"N, 68"}, {"N, 68"}, {"204"}, {"N", "i64", 0, 7}},
       {{"7, N, 68"}, {"N, 68"}, {"N, 68"}},
       "cell = \"lstm\", reverse = true, linearBeforeReset = false, "
       "activations = [\"sigmoid\", \"tanh\", \"tanh\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1, 1>"},
      {"tn.recurrence", kFloats, {{"N, 3, 80"}, {"20, 80", "T", -0.2, 0.2}, {"3, 20"}, {"3, 20"}}, {{"N, 3, 20"}, {"3, 20"}, {"3, 20"}},
       "cell = \"lstm\", reverse = false, linearBeforeReset = false, inputForget = true, clip = 0.7 : f64, "
       "activations = [\"hardsigmoid\", \"scaledtanh\", \"elu\"], "
       "parameters = array<f64: 0.3, 0.4, 0.9, 0.6, 0.8, 0.0>, "
       "operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>"},
      {"tn.recurrence", "f32", {{"N, 3, 21"}, {"7, 21", "T", -0.2, 0.2}, {"3, 7"}}, {{"N, 3, 7"}, {"3, 7"}},
       "cell = \"gru\", reverse = false, linearBeforeReset = false, clip = 0.9 : f64, "
       "activations = [\"affine\", \"leakyrelu\"], parameters = array<f64: 0.25, 0.5, 0.1, 0.0>, "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>"},
      {"tn.recurrence", "f32", {{"N, 3, 21"}, {"21, 21", "T", -0.2, 0.2}, {"3, 21"}}, {{"N, 3, 21"}, {"3, 21"}},
       "cell = \"rnn\", reverse = true, linearBeforeReset = false, activations = [\"thresholdedrelu\"], "
       "parameters = array<f64: 0.1, 0.0>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>"},
      // Weights that are packed where they are constant; gates begin inside of a panel.
      {"tn.recurrence", "f32", {{"N, 11, 240"}, {"80, 240", "T", -0.1, 0.1}, {"11, 80"}}, {{"N, 11, 80"}, {"11, 80"}},
       "cell = \"gru\", reverse = false, linearBeforeReset = false, activations = [\"sigmoid\", \"tanh\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>"},
      {"tn.recurrence", "f32", {{"5, N, 192"}, {"48, 192", "T", -0.1, 0.1}, {"N, 48"}, {"N, 48"}}, {{"5, N, 48"}, {"N, 48"}, {"N, 48"}},
       "cell = \"lstm\", reverse = true, linearBeforeReset = false, "
       "activations = [\"sigmoid\", \"tanh\", \"tanh\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>"},
      // Weights of a size that all threads share each step.
      {"tn.recurrence", "f32", {{"3, N, 1024"}, {"256, 1024", "T", -0.1, 0.1}, {"N, 256"}, {"N, 256"}, {"768"}},
       {{"3, N, 256"}, {"N, 256"}, {"N, 256"}},
       "cell = \"lstm\", reverse = true, linearBeforeReset = false, "
       "activations = [\"sigmoid\", \"tanh\", \"tanh\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1, 0>"},
      {"tn.recurrence", "f32", {{"N, 2, 960"}, {"320, 960", "T", -0.1, 0.1}, {"2, 320"}, {"320"}}, {{"N, 2, 320"}, {"2, 320"}},
       "cell = \"gru\", reverse = false, linearBeforeReset = true, activations = [\"sigmoid\", \"tanh\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>"},
      {"tn.recurrence", "f32", {{"2, N, 960"}, {"320, 960", "T", -0.1, 0.1}, {"N, 320"}}, {{"2, N, 320"}, {"N, 320"}},
       "cell = \"gru\", reverse = true, linearBeforeReset = false, activations = [\"sigmoid\", \"tanh\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>"},
      {"tn.recurrence", "f32", {{"N, 1, 512"}, {"512, 512", "T", -0.1, 0.1}, {"1, 512"}}, {{"N, 1, 512"}, {"1, 512"}},
       "cell = \"rnn\", reverse = false, linearBeforeReset = false, activations = [\"tanh\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>"},
      {"tn.recurrence", "f32", {{"N, 2, 4"}, {"1, 4"}, {"2, 1"}, {"2, 1"}}, {{"N, 2, 1"}, {"2, 1"}, {"2, 1"}},
       "cell = \"lstm\", reverse = false, linearBeforeReset = false, "
       "activations = [\"sigmoid\", \"tanh\", \"tanh\"], "
       "operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>"},

      {"tn.quantize", "i8 ui8 i16 ui16", {{"3, N", "f32"}, {"3", "f32", 0.01, 0.1}, {"3", "T", -5, 5}},
       {{"3, N"}}, "axis = 0 : i64"},
      {"tn.quantize", "i8 ui8", {{"3, N", "f16"}, {"", "f16", 0.01, 0.1}, {"", "T", -5, 5}}, {{"3, N"}},
       "axis = 0 : i64"},
      {"tn.encode", kLowFloats, {{"40, N", "f32", -kEverything, kEverything}}, {{"40, N"}}},
      {"tn.encode", kLowFloats, {{"40, N", "f16", -600, 600}}, {{"40, N"}}, "saturate = false"},
      {"tn.encode", kLowFloats, {{"40, N", "f64", -9, 9}}, {{"40, N"}}, "saturate = false, round = \"nearest\""},
      {"tn.encode", kLowFloats, {{"40, N", "f32", -0.02, 0.02}}, {{"40, N"}}, "round = \"down\""},
      {"tn.encode", kLowIntegers, {{"3, N", "f32", -kEverything, kEverything}}, {{"3, N"}}},
      {"tn.encode", kLowIntegers, {{"3, N", "i32", -40, 40}}, {{"3, N"}}},
      {"tn.decode", kLowFloats, {{"3, N", "T", -500, 500}}, {{"3, N", "f32"}}},
      {"tn.decode", "f8E4M3FN f4E2M1FN", {{"3, N", "T", -9, 9}}, {{"3, N", "f16"}}},
      {"tn.decode", "i4 i2", {{"3, N", "T", -8, 7}}, {{"3, N", "i8"}}},
      {"tn.decode", "ui4 ui2", {{"3, N", "T", 0, 15}}, {{"3, N", "ui8"}}},
      {"tn.unpack_bits", "i4 f4E2M1FN", {{"29", "ui8", 0, 255}}, {{"3, 19"}}},
      {"tn.unpack_bits", "ui2", {{"15", "ui8", 0, 255}}, {{"3, 19"}}},
      {"tn.bitcast", "i32 f32", {{"3, N", "f32"}}, {{"3, N"}}},
      {"tn.bitcast", "i1 ui8", {{"3, N", "i8"}}, {{"3, N"}}},
      {"tn.max_pool_index", "f32 f16 i8",
       {{"2, 3, 9, N", "T", -2, -2}, {"2, 3, 5, (N - 1) floordiv 2 + 1", "T", -2, -2}},
       {{"2, 3, 5, (N - 1) floordiv 2 + 1", "i64"}},
       "kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, "
       "dilations = array<i64: 1, 1>"},
      {"tn.histogram", "f32", {{"3, N", "T", -8, 8}}, {{"3, 1024", "i32"}}, "bits = 10 : i64"},
      {"tn.round_blocks", "f32", {{"3, N", "T", -8, 8}}, {{"3, N"}}, "block = 4 : i64"},
      {"tn.true_positions", "i1", {{"N"}}, {{"N", "i64"}, {"", "i64"}}},
      {"tn.select_boxes", "f32 f64 f16",
       {{"2, N, 4"}, {"2, 3, N"}, {"2, 3, N", "i1"}, {"", "i64", 5, 5}, {"", "T", 0.1, 0.3}},
       {{"2, 3, 7", "i64"}}},
      {"tn.sample", "f32",
       {{"2, 300"}, {"2, 3", "f64", 0.1, 0.9}, {"2, 3", "i64", 0, 90}}, {{"2", "i64"}, {"2"}}},
      {"tn.sample", "f32",
       {{"N floordiv 6 + 1, 70"},
        {"N floordiv 6 + 1, 3", "f64", 0, 0.2},
        {"N floordiv 6 + 1, 3", "i64", 0, 9}},
       {{"N floordiv 6 + 1", "i64"}, {"N floordiv 6 + 1"}}},
      {"tn.transpose", "f8E4M3FN i4", {{"3, N, 5"}}, {{"N, 5, 3"}}, "permutation = array<i64: 1, 2, 0>"},
      {"tn.select", "f8E5M2 ui2", {{"3, N", "i1"}, {"3, N"}, {"N"}}, {{"3, N"}}},
      {"tn.dequantize", "i8 ui8 i16 ui16 i32",
       {{"3, N", "T", -120, 120}, {"3", "f32", 0.01, 0.1}, {"3", "T", -5, 5}}, {{"3, N", "f32"}},
       "axis = 0 : i64"},
  };
  // clang-format on
  return table;
}

const std::vector<Exception> &exceptions() {
  static const std::vector<Exception> list = {
      {"tn.weight", "the constant form of every row has weights as operands"},
      {"tn.constant", "the constant form of every row has constants as operands"},
      {"tn.pack",
       "the constant form of tn.matmul and tn.conv packs; packing itself runs in plan/Pack.cpp"},
      {"tn.unpack", "stands for the packed operand in the regions of tn.matmul and tn.conv"},
      {"tn.winograd_filter",
       "evaluated while weights are written; test_unit_plan compares its bytes"},
      {"tn.winograd_taps", "stands for the transformed operand in the regions of tn.conv"},
      {"tn.decode_rows",
       "stands for the weights in the regions of tn.matmul: e2e weight_only runs it"},
      {"tn.reshape", "moves nothing: it stands outside of regions as another view of a buffer"},
      {"tn.take_first", "its result has a size that only a run knows: the cases of NonZero run it"},
      {"tn.paged_write", "what it writes lies as each target likes: PagedTest.cpp reads it again"},
      {"tn.paged_attention", "reads what tn.paged_write wrote: PagedTest.cpp"},
      {"tn.rank_slice",
       "of the ranks of a cut graph, which the reference alone runs: test_unit_shard"},
      {"tn.all_reduce", "the same"},
      {"tn.all_gather", "the same"},
      {"tn.send_receive", "between stages of a pipeline: e2e stages runs it"},
      {"tn.custom", "a kernel of the user's: e2e user_kernels and user_kernels_gpu run it"},
      {"tn.region", "made by dispatch around the op of every row"},
      {"tn.yield", "ends the region of every row"},
  };
  return list;
}

} // namespace tenon::ops

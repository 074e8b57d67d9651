// Tests what the shape rules and verifiers refuse, and with which words; then with random hostile
// attributes that nothing crashes and nothing impossible is accepted.
#include "InferFixture.h"

#include "compiler/graph/infer/Infer.h"

#include <limits>
#include <random>

using namespace mlir;
using namespace tenon::tn;

namespace {

using RefuseTest = InferTest;

struct Bad {
  const char *arguments;
  const char *op;
  const char *message;
};

const char kConvTail[] = "channelsLast = false} : (tensor<1x4x9xf32>, tensor<6x2x3xf32>) -> "
                         "tensor<1x6x7xf32>";

const Bad kBad[] = {
    {"%0: tensor<2xf32>, %1: tensor<3xf32>",
     "tn.add %0, %1 : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>", "do not broadcast"},
    {"%0: tensor<2xf32>, %1: tensor<2xf16>",
     "tn.add %0, %1 : (tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>", "different element types"},
    {"%0: tensor<2xi1>", "tn.add %0, %0 : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>",
     "must be ranked tensor of"},
    {"%0: tensor<2xi32>", "tn.exp %0 : tensor<2xi32>", "must be ranked tensor of"},
    {"%0: tensor<2xf32>", "tn.shift %0, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
     "must be ranked tensor of"},
    {"%0: tensor<2xf32>", "tn.add %0, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>",
     "incompatible"},
    {"%0: tensor<2xf32>", "tn.cast %0 : (tensor<2xf32>) -> tensor<3xi32>", "shape"},
    {"%0: {A}", "tn.cast %0 : ({A}) -> tensor<?x3x8xi32, #tn.shape<()[s0, s1] -> (s1, 3, 8)>>",
     "the result of a cast"},
    {"%0: {A}", "tn.reduce <sum> %0 {axes = array<i64: 3>, keepdims = true} : ({A}) -> {A}",
     "axis 3 is outside a tensor of rank 3"},
    {"%0: {A}", "tn.reduce <sum> %0 {axes = array<i64: 1, 1>, keepdims = true} : ({A}) -> {A}",
     "axis 1 is repeated or out of order"},
    {"%0: {A}", "tn.softmax %0 {axis = -1 : i64} : {A}", "axis -1 is outside"},
    {"%0: tensor<2x0xf32>",
     "tn.arg_reduce %0 {axis = 1 : i64, keepdims = false, largest = true, lastIndex = false} : "
     "(tensor<2x0xf32>) -> tensor<2xi64>",
     "axis 1 has size 0"},
    {"%0: tensor<2x8xf32>, %1: tensor<7xf32>",
     "tn.layer_norm %0 scale %1 {axis = 1 : i64, epsilon = 0.1 : f64} : (tensor<2x8xf32>, "
     "tensor<7xf32>) -> tensor<2x8xf32>",
     "scale of shape [7] does not broadcast to [8]"},
    {"%0: tensor<2x6x5xf32>, %1: tensor<6xf32>",
     "tn.group_norm %0, %1, %1 {groups = 4 : i64, epsilon = 0.1 : f64} : (tensor<2x6x5xf32>, "
     "tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x5xf32>",
     "4 groups do not divide 6 channels"},
    {"%0: tensor<2x3xf32>, %1: tensor<4x5xf32>",
     "tn.matmul %0, %1 : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>",
     "sums over: 3 and 4 differ"},
    {"%0: {B}, %1: tensor<4x5xf32>",
     "tn.matmul %0, %1 : ({B}, tensor<4x5xf32>) -> tensor<?x5xf32, #tn.shape<()[s0] -> (s0, 5)>>",
     "s1 and 4 are not known to be equal"},
    {"%0: tensor<3xf32>, %1: tensor<3x5xf32>",
     "tn.matmul %0, %1 : (tensor<3xf32>, tensor<3x5xf32>) -> tensor<5xf32>", "rank 2 or more"},
    {"%0: tensor<2x7x4x8xf32>, %1: tensor<2x3x9x8xf32>",
     "tn.attention %0, %1, %1 {scale = 1.0 : f64, causal = false, headsInner = array<i1: false, "
     "false, false, false>} : (tensor<2x7x4x8xf32>, tensor<2x3x9x8xf32>, tensor<2x3x9x8xf32>) -> "
     "tensor<2x7x4x8xf32>",
     "3 heads of k do not divide 7 heads of q"},
    {"%0: tensor<2x4x4x8xf64>, %1: tensor<4x4xf32>",
     "tn.attention %0, %0, %0 mask %1 {scale = 1.0 : f64, causal = false, headsInner = array<i1: "
     "false, false, false, false>} : (tensor<2x4x4x8xf64>, tensor<2x4x4x8xf64>, "
     "tensor<2x4x4x8xf64>, tensor<4x4xf32>) -> tensor<2x4x4x8xf64>",
     "different element types"},
    {"%0: tensor<2x4x4x8xf32>",
     "tn.attention %0, %0, %0 {scale = 1.0 : f64, causal = false, headsInner = array<i1: false>} : "
     "(tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32>",
     "headsInner has 1 entries"},
    {"%0: tensor<2x4x4x8xf32>, %1: tensor<2xi64>",
     "tn.attention %0, %0, %0 start %1 {scale = 1.0 : f64, causal = true, headsInner = array<i1: "
     "false, false, false, false>} : (tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, "
     "tensor<2x4x4x8xf32>, tensor<2xi64>) -> tensor<2x4x4x8xf32>",
     "starts at one position"},
    {"%0: tensor<2x4x4x8xf32>",
     "tn.attention %0, %0, %0 {scale = 1.0 : f64, causal = false, window = 3 : i64, headsInner = "
     "array<i1: false, false, false, false>} : (tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, "
     "tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32>",
     "only causal attention"},
    {"%0: tensor<1x1x2xf32>",
     "tn.max_pool %0 {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 2, 0>, "
     "dilations = array<i64: 1>, ceilMode = false, channelsLast = false} : (tensor<1x1x2xf32>) -> "
     "tensor<1x1x3xf32>",
     "without an element"},
    {"%0: tensor<1x1x2xf32>",
     "tn.max_pool %0 {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 0, 0>, "
     "dilations = array<i64: 1>, ceilMode = true, channelsLast = false} : (tensor<1x1x2xf32>) -> "
     "tensor<1x1x1xf32>",
     "a window of 3 does not fit"},
    {"%0: tensor<1x1x2xf32>, %1: tensor<1x1x2xf32>",
     "tn.conv_transpose %0, %1 {strides = array<i64: 1>, pads = array<i64: 2, 1>, dilations = "
     "array<i64: 1>, outputPadding = array<i64: 0>, groups = 1 : i64} : (tensor<1x1x2xf32>, "
     "tensor<1x1x2xf32>) -> tensor<1x1x1xf32>",
     "is empty"},
    {"%0: {A}", "tn.transpose %0 [0, 0, 1] : ({A}) -> {A}", "each of 3 dims once"},
    {"%0: {A}", "tn.transpose %0 [0, 1, 3] : ({A}) -> {A}", "each of 3 dims once"},
    {"%0: tensor<2x3xf32>, %1: tensor<3x3xf32>",
     "tn.concat %0, %1 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x6xf32>",
     "beside the concatenated axis: 2 and 3 differ"},
    {"%0: tensor<4611686018427387904x0xf32>",
     "tn.concat %0, %0 {axis = 0 : i64} : (tensor<4611686018427387904x0xf32>, "
     "tensor<4611686018427387904x0xf32>) -> tensor<1x0xf32>",
     "overflow"},
    {"%0: tensor<2xf32>",
     "tn.pad <constant> %0 {begins = array<i64: -2>, ends = array<i64: -1>} : (tensor<2xf32>) -> "
     "tensor<0xf32>",
     "do not fit dim 0 of size 2"},
    {"%0: tensor<2xf32>",
     "tn.pad <edge> %0 {begins = array<i64: 9223372036854775807>, ends = array<i64: 1>} : "
     "(tensor<2xf32>) -> tensor<3xf32>",
     "pad is 9223372036854775807"},
    {"%0: tensor<0xf32>",
     "tn.pad <reflect> %0 {begins = array<i64: 1>, ends = array<i64: 1>} : (tensor<0xf32>) -> "
     "tensor<2xf32>",
     "do not fit dim 0 of size 0"},
    {"%0: tensor<3x4xf32>, %1: tensor<2xi64>",
     "tn.gather %0, %1 {axis = 2 : i64} : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<3x4xf32>",
     "axis 2 is outside"},
    {"%0: tensor<3x4xf32>, %1: tensor<2xf32>",
     "tn.gather %0, %1 {axis = 1 : i64} : (tensor<3x4xf32>, tensor<2xf32>) -> tensor<3x2xf32>",
     "must be ranked tensor of"},
    {"%0: tensor<3x4xf32>, %1: tensor<4x5xi64>",
     "tn.gather_elements %0, %1 {axis = 0 : i64} : (tensor<3x4xf32>, tensor<4x5xi64>) -> "
     "tensor<4x5xf32>",
     "reach beyond dim 1"},
    {"%0: tensor<3x4xf32>, %1: tensor<2x3xi64>",
     "tn.gather_nd %0, %1 {batchDims = 0 : i64} : (tensor<3x4xf32>, tensor<2x3xi64>) -> "
     "tensor<2xf32>",
     "index tuples of length 3 do not fit"},
    {"%0: tensor<3x4xf32>, %1: tensor<2x1xi64>, %2: tensor<2x5xf32>",
     "tn.scatter_nd <none> %0, %1, %2 : (tensor<3x4xf32>, tensor<2x1xi64>, tensor<2x5xf32>) -> "
     "tensor<3x4xf32>",
     "updates: 5 and 4 differ"},
    {"%0: {A}", "tn.reshape %0 : ({A}) -> tensor<?x25xf32, #tn.shape<()[s0] -> (s0, 25)>>",
     "changes the number of elements from s0 * 24 to s0 * 25"},
    {"%0: tensor<2x8xf32>", "tn.broadcast %0 : (tensor<2x8xf32>) -> tensor<4x3x8xf32>",
     "cannot broadcast"},
    {"%0: tensor<4xf32>",
     "tn.slice %0 {starts = affine_map<() -> (2)>, steps = array<i64: 2>} : (tensor<4xf32>) -> "
     "tensor<2xf32>",
     "reads outside dim 0 of size 4"},
    {"%0: tensor<4xf32>",
     "tn.slice %0 {starts = affine_map<() -> (0)>, steps = array<i64: 0>} : (tensor<4xf32>) -> "
     "tensor<2xf32>",
     "step 0"},
    {"%0: tensor<4xf32>",
     "%z:2 = tn.top_k %0 {axis = 0 : i64, largest = true, sorted = true} : (tensor<4xf32>) -> "
     "(tensor<5xf32>, tensor<5xi64>)",
     "more than the 4 elements"},
    {"%0: tensor<2x4xf32>, %1: tensor<3xf32>, %2: tensor<3xi8>",
     "tn.quantize %0, %1, %2 {axis = 1 : i64} : (tensor<2x4xf32>, tensor<3xf32>, tensor<3xi8>) -> "
     "tensor<2x4xi8>",
     "scale: 3 and 4 differ"},
    {"%0: tensor<4xf32>",
     "tn.resize <linear> %0 {coordinates = \"somewhere\", nearest = \"floor\", scales = array<f64: "
     "2.0>, cubicA = -0.75 : f64, excludeOutside = false, antialias = false, extrapolation = 0.0 : "
     "f64, roi = array<f64>} : (tensor<4xf32>) -> tensor<8xf32>",
     "does not know the coordinates 'somewhere'"},
    {"%0: tensor<4xf32>",
     "tn.resize <linear> %0 {coordinates = \"asymmetric\", nearest = \"floor\", scales = "
     "array<f64: 0.0>, cubicA = -0.75 : f64, excludeOutside = false, antialias = false, "
     "extrapolation = 0.0 : f64, roi = array<f64>} : (tensor<4xf32>) -> tensor<8xf32>",
     "not positive and finite"},
    {"", "tn.sizes affine_map<()[s0] -> (s0, 1)> : tensor<3xi64>", "each of 3 elements"},
    {"", "tn.sizes affine_map<()[s0] -> (s0)> : tensor<1xf32>", "list of signed integers"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [4] : "
     "(tensor<4x6xf32>) -> tensor<2x4x5xf32>",
     "packs 'tensor<4x6xf32>' to 'tensor<2x4x4xf32>', not 'tensor<2x4x5xf32>'"},
    {"%0: tensor<2x4x5xf32>",
     "tn.unpack %0 outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [4] : "
     "(tensor<2x4x5xf32>) -> tensor<4x6xf32>",
     "packs 'tensor<4x6xf32>' to 'tensor<2x4x4xf32>', not 'tensor<2x4x5xf32>'"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [4] : "
     "(tensor<4x6xf32>) -> tensor<2x4x4xf16>",
     "not 'tensor<2x4x4xf16>'"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 0] inner_dims_pos = [1] : (tensor<4x6xf32>) -> "
     "tensor<6x4xf32>",
     "has 1 entries of inner_dims_pos, but 0 inner_tiles for 'tensor<4x6xf32>'"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 0] inner_dims_pos = [2] inner_tiles = [4] : "
     "(tensor<4x6xf32>) -> tensor<2x4x4xf32>",
     "tiles dim 2 of 2 dims"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 0] inner_dims_pos = [-1] inner_tiles = [4] : "
     "(tensor<4x6xf32>) -> tensor<2x4x4xf32>",
     "tiles dim -1 of 2 dims"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [0] : "
     "(tensor<4x6xf32>) -> tensor<2x4x4xf32>",
     "tiles dim 1 by 0"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [9223372036854775807] "
     ": (tensor<4x6xf32>) -> tensor<2x4x4xf32>",
     "tiles dim 1 by 9223372036854775807"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [1099511627776, "
     "1099511627776] : (tensor<4x6xf32>) -> tensor<2x4x4xf32>",
     "has too many elements to count"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1] : (tensor<4x6xf32>) -> tensor<6x4xf32>",
     "has 2 outer dims, but 1 entries of outer_dims_perm"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 0] inner_dims_pos = [1, 1] inner_tiles = [4, 2] : "
     "(tensor<4x6xf32>) -> tensor<2x4x2x2xf32>",
     "has 3 outer dims, but 2 entries of outer_dims_perm"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 2] : (tensor<4x6xf32>) -> tensor<6x4xf32>",
     "has 2 in outer_dims_perm, which numbers 2 outer dims"},
    {"%0: tensor<4x6xf32>",
     "tn.pack %0 outer_dims_perm = [1, 1] : (tensor<4x6xf32>) -> tensor<6x4xf32>",
     "has 1 twice in outer_dims_perm"},
    {"%0: tensor<?x6xf32, #tn.shape<()[s0] -> (s0, 6)>>",
     "tn.pack %0 outer_dims_perm = [1, 0] : (tensor<?x6xf32, #tn.shape<()[s0] -> (s0, 6)>>) -> "
     "tensor<6x4xf32>",
     "packs no array whose sizes vary"},
    {"%0: tensor<4x6x3x1xf32>",
     "tn.winograd_filter %0 {m = 2 : i64} : (tensor<4x6x3x1xf32>) -> tensor<4x6x4x4xf32>",
     "has no filters of 3 x 3 taps of f32 in the last two dims of 'tensor<4x6x3x1xf32>'"},
    {"%0: tensor<4x6x3x3xf16>",
     "tn.winograd_filter %0 {m = 2 : i64} : (tensor<4x6x3x3xf16>) -> tensor<4x6x4x4xf16>",
     "has no filters of 3 x 3 taps of f32"},
    {"%0: tensor<4x6x3x3xf32>",
     "tn.winograd_filter %0 {m = 3 : i64} : (tensor<4x6x3x3xf32>) -> tensor<4x6x5x5xf32>",
     "or an m (3) that is not 2 or 4"},
    {"%0: tensor<4x6x3x3xf32>",
     "tn.winograd_filter %0 {m = 4 : i64} : (tensor<4x6x3x3xf32>) -> tensor<4x6x4x4xf32>",
     "needs filters of the type 'tensor<4x6x6x6xf32>', not 'tensor<4x6x4x4xf32>'"},
    {"%0: tensor<4x6x6x5xf32>",
     "tn.winograd_taps %0 {m = 4 : i64} : (tensor<4x6x6x5xf32>) -> tensor<4x6x3x3xf32>",
     "needs filters of the type 'tensor<4x6x6x6xf32>', not 'tensor<4x6x6x5xf32>'"},
};

TEST_F(RefuseTest, RefusesWhatIsWrongInWords) {
  for (const Bad &row : kBad) {
    std::string result = inferred(row.arguments, row.op);
    EXPECT_NE(result.find(std::string("refused: ")), std::string::npos) << row.op << "\n" << result;
    EXPECT_NE(result.find(row.message), std::string::npos) << row.op << "\n" << result;
  }
}

TEST_F(RefuseTest, RefusesHostileConvolutions) {
  struct Row {
    const char *attributes;
    const char *message;
  };
  const Row rows[] = {
      {"strides = array<i64: 0>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2",
       "stride is 0"},
      {"strides = array<i64: -1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2",
       "stride is -1"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 0>, groups = 2",
       "dilation is 0"},
      {"strides = array<i64: 1>, pads = array<i64: 0, -1>, dilations = array<i64: 1>, groups = 2",
       "pad is -1"},
      {"strides = array<i64: 1>, pads = array<i64: 0>, dilations = array<i64: 1>, groups = 2",
       "pad has 1 entries where 2 are needed"},
      {"strides = array<i64: 1, 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2",
       "stride has 2 entries"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: "
       "9223372036854775807>, groups = 2",
       "dilation is 9223372036854775807"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 900000000000>, "
       "groups = 2",
       "larger than any tensor"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 5>, groups = 2",
       "a window of 11 does not fit into a dim of 9 with 0 of padding"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 0",
       "0 groups do not divide"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = -2",
       "-2 groups do not divide"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 4",
       "4 groups do not divide 6"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = "
       "6917529027641081856",
       "groups do not divide 6"},
      {"strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 3",
       "(times groups): 4 and 6 differ"},
  };
  for (const Row &row : rows) {
    std::string result =
        inferred("%0: tensor<1x4x9xf32>, %1: tensor<6x2x3xf32>",
                 std::string("tn.conv %0, %1 {") + row.attributes + " : i64, " + kConvTail);
    EXPECT_NE(result.find(row.message), std::string::npos) << row.attributes << "\n" << result;
  }
}

TEST_F(RefuseTest, RefusesTensorsThatInt64CannotCount) {
  std::string huge = "tensor<4294967296x1xf32>";
  std::string other = "tensor<1x4294967296xf32>";
  std::string result = inferred("%0: " + huge + ", %1: " + other,
                                "tn.add %0, %1 : (" + huge + ", " + other + ") -> tensor<1x1xf32>");
  EXPECT_NE(result.find("more bytes than int64 can count"), std::string::npos) << result;
}

/// Numbers at which arithmetic on shapes goes wrong.
constexpr int64_t kHostile[] = {0,
                                -1,
                                1,
                                2,
                                3,
                                7,
                                -2,
                                int64_t(1) << 31,
                                int64_t(1) << 40,
                                (int64_t(1) << 40) + 1,
                                int64_t(1) << 62,
                                std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min()};

struct HostileRow {
  const char *arguments;
  const char *before; // the attributes, with @ for each number and * for a list of them
  const char *after;
};

const HostileRow kHostileRows[] = {
    {"%0: tensor<1x4x9x?xf32, #tn.shape<()[s0] -> (1, 4, 9, s0)>>, %1: tensor<6x2x3x3xf32>",
     "tn.conv %0, %1 {strides = *, pads = *, dilations = *, groups = @ : i64, channelsLast = "
     "false}",
     "(tensor<1x4x9x?xf32, #tn.shape<()[s0] -> (1, 4, 9, s0)>>, tensor<6x2x3x3xf32>)"},
    {"%0: tensor<1x6x9x5xf32>, %1: tensor<6x2x3x3xf32>",
     "tn.conv_transpose %0, %1 {strides = *, pads = *, dilations = *, outputPadding = *, groups = "
     "@ : "
     "i64}",
     "(tensor<1x6x9x5xf32>, tensor<6x2x3x3xf32>)"},
    {"%0: tensor<1x4x9x9xf32>",
     "tn.max_pool %0 {kernel = *, strides = *, pads = *, dilations = *, ceilMode = true, "
     "channelsLast "
     "= false}",
     "(tensor<1x4x9x9xf32>)"},
    {"%0: tensor<4x9xf32>", "tn.pad <reflect> %0 {begins = *, ends = *}", "(tensor<4x9xf32>)"},
    {"%0: tensor<4x9xf32>", "tn.transpose %0 [@, @]", "(tensor<4x9xf32>)"},
    {"%0: tensor<4x9xf32>", "tn.reduce <sum> %0 {axes = *, keepdims = false}", "(tensor<4x9xf32>)"},
    {"%0: tensor<4x9xf32>", "tn.concat %0, %0 {axis = @ : i64}",
     "(tensor<4x9xf32>, tensor<4x9xf32>)"},
    {"%0: tensor<4x9xf32>, %1: tensor<2x1xi64>", "tn.gather_nd %0, %1 {batchDims = @ : i64}",
     "(tensor<4x9xf32>, tensor<2x1xi64>)"},
    {"%0: tensor<4x9xf32>, %1: tensor<2x1xi64>", "tn.gather %0, %1 {axis = @ : i64}",
     "(tensor<4x9xf32>, tensor<2x1xi64>)"},
};

TEST_F(RefuseTest, RandomAttributesGiveAResultOrWords) {
  std::mt19937 random(11);
  auto number = [&] {
    // Mostly small, so that many rows are accepted.
    size_t last = random() % 4 ? 6 : std::size(kHostile);
    return std::to_string(kHostile[random() % last]);
  };
  int accepted = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const HostileRow &row = kHostileRows[round % std::size(kHostileRows)];
    std::string op;
    for (const char *at = row.before; *at; ++at) {
      if (*at == '*') {
        std::string numbers = number();
        for (unsigned extra = random() % 4; extra-- > 0;) {
          numbers += ", " + number();
        }
        op += "array<i64: " + numbers + ">";
      } else {
        op += *at == '@' ? number() : std::string(1, *at);
      }
    }
    // The stated result is never right: the rule runs, and its own words or the mismatch come back.
    std::string text = inferred(row.arguments, op + " : " + row.after + " -> tensor<17x23x29xf32>");
    ASSERT_EQ(text.find("refused: "), 0u) << op << text;
    bool isMismatch = text.find("inferred type(s)") != std::string::npos;
    (isMismatch ? accepted : refused) += 1;
    // What is inferred has no negative dim.
    EXPECT_EQ(text.find("tensor<-"), std::string::npos) << op << text;
    EXPECT_EQ(text.find("x-"), std::string::npos) << op << text;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

} // namespace

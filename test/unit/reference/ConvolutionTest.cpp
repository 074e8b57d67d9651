// Tests convolutions against loops written from the definition, over strides, pads, dilations,
// groups, layouts and 1 to 3 spatial dims. Relies on seeded random operands.
#include "ReferenceFixture.h"

using namespace tenon;
using namespace tenon::reference;

namespace {

struct Case {
  std::vector<int64_t> x; // N, C, spatial...
  std::vector<int64_t> weight;
  std::vector<int64_t> strides, pads, dilations, outputPadding;
  int64_t groups;
};

std::string list(const std::vector<int64_t> &values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i ? ", " : ": ") + std::to_string(values[i]);
  }
  return text + ">";
}

std::string type(const std::vector<int64_t> &dims, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + element + ">";
}

/// Calls fn with every position of a box.
template <typename Fn> void forEach(const std::vector<int64_t> &box, const Fn &fn) {
  int64_t count = 1;
  for (int64_t size : box) {
    count *= size;
  }
  std::vector<int64_t> at(box.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t d = box.size(); d-- > 0;) {
      at[d] = rest % box[d];
      rest /= box[d];
    }
    fn(at);
  }
}

int64_t flat(const std::vector<int64_t> &at, const std::vector<int64_t> &box) {
  int64_t index = 0;
  for (size_t d = 0; d < box.size(); ++d) {
    index = index * box[d] + at[d];
  }
  return index;
}

/// Both convolutions pair an element of the small side (x at `small`) with one of the large side (y
/// of a transposed, x of a plain convolution): large = small * stride + tap * dilation - pad.
template <typename Fn>
void forEachPair(const Case &c, const std::vector<int64_t> &small,
                 const std::vector<int64_t> &large, const Fn &fn) {
  std::vector<int64_t> kernel(c.weight.begin() + 2, c.weight.end());
  forEach(small, [&](const std::vector<int64_t> &at) {
    forEach(kernel, [&](const std::vector<int64_t> &tap) {
      std::vector<int64_t> other(at.size());
      bool inside = true;
      for (size_t d = 0; d < at.size(); ++d) {
        other[d] = at[d] * c.strides[d] + tap[d] * c.dilations[d] - c.pads[d];
        inside &= other[d] >= 0 && other[d] < large[d];
      }
      if (inside) {
        fn(flat(at, small), flat(other, large), flat(tap, kernel));
      }
    });
  });
}

int64_t count(const std::vector<int64_t> &box) {
  int64_t product = 1;
  for (int64_t size : box) {
    product *= size;
  }
  return product;
}

std::vector<double> naiveConv(const Case &c, const std::vector<int64_t> &y,
                              const std::vector<double> &x, const std::vector<double> &w,
                              const std::vector<double> &bias) {
  std::vector<int64_t> small(y.begin() + 2, y.end()), large(c.x.begin() + 2, c.x.end());
  int64_t taps = count(c.weight) / c.weight[0] / c.weight[1];
  std::vector<double> result(count(y));
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t o = 0; o < y[1]; ++o) {
      double *out = result.data() + (n * y[1] + o) * count(small);
      std::fill_n(out, count(small), bias[o]);
      for (int64_t i = 0; i < c.weight[1]; ++i) {
        int64_t channel = o / (y[1] / c.groups) * c.weight[1] + i;
        const double *in = x.data() + (n * c.x[1] + channel) * count(large);
        forEachPair(c, small, large, [&](int64_t s, int64_t l, int64_t tap) {
          out[s] += in[l] * w[(o * c.weight[1] + i) * taps + tap];
        });
      }
    }
  }
  return result;
}

std::vector<double> naiveConvTranspose(const Case &c, const std::vector<int64_t> &y,
                                       const std::vector<double> &x, const std::vector<double> &w) {
  std::vector<int64_t> small(c.x.begin() + 2, c.x.end()), large(y.begin() + 2, y.end());
  int64_t taps = count(c.weight) / c.weight[0] / c.weight[1];
  std::vector<double> result(count(y));
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t i = 0; i < c.x[1]; ++i) {
      for (int64_t o = 0; o < c.weight[1]; ++o) {
        int64_t channel = i / (c.x[1] / c.groups) * c.weight[1] + o;
        double *out = result.data() + (n * y[1] + channel) * count(large);
        const double *in = x.data() + (n * c.x[1] + i) * count(small);
        forEachPair(c, small, large, [&](int64_t s, int64_t l, int64_t tap) {
          out[l] += in[s] * w[(i * c.weight[1] + o) * taps + tap];
        });
      }
    }
  }
  return result;
}

std::string attributes(const Case &c) {
  return "strides = " + list(c.strides) + ", pads = " + list(c.pads) +
         ", dilations = " + list(c.dilations) + ", groups = " + std::to_string(c.groups) + " : i64";
}

std::vector<int64_t> convResult(const Case &c) {
  std::vector<int64_t> y = {c.x[0], c.weight[0]};
  size_t spatial = c.strides.size();
  for (size_t d = 0; d < spatial; ++d) {
    int64_t extent = (c.weight[2 + d] - 1) * c.dilations[d] + 1;
    y.push_back((c.x[2 + d] + c.pads[d] + c.pads[spatial + d] - extent) / c.strides[d] + 1);
  }
  return y;
}

const Case kConvs[] = {
    {{1, 1, 5}, {1, 1, 3}, {1}, {0, 0}, {1}, {}, 1},
    {{2, 4, 9}, {6, 2, 3}, {2}, {1, 2}, {2}, {}, 2},
    {{1, 3, 8, 7}, {5, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, {}, 1},
    {{2, 3, 17, 15}, {8, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}, {}, 1},
    {{1, 6, 9, 9}, {6, 1, 3, 3}, {1, 2}, {1, 0, 2, 1}, {2, 1}, {}, 6},         // depthwise
    {{1, 130, 12, 12}, {100, 130, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {}, 1}, // several blocks
    {{1, 2, 5, 6, 7}, {4, 1, 2, 3, 3}, {1, 2, 1}, {0, 1, 1, 1, 0, 1}, {2, 1, 2}, {}, 2},
};

TEST_F(ReferenceTest, ConvolutionsFollowTheDefinition) {
  for (const Case &c : kConvs) {
    std::vector<int64_t> dims = convResult(c);
    SCOPED_TRACE(attributes(c));
    Tensor x = random(DType::F32, c.x, 1);
    Tensor weight = random(DType::F32, c.weight, 2);
    Tensor bias = random(DType::F32, {c.weight[0]}, 3);
    std::vector<double> expected =
        naiveConv(c, dims, valuesOf(x), valuesOf(weight), valuesOf(bias));
    std::string op = "tn.conv %0, %1 bias %2 {" + attributes(c) + ", channelsLast = false}";
    expectTensor(evaluate(op, {x, weight, bias}, type(dims, "f32")), dims, expected, 4e-6);
    expectTensor(evaluate(op, {x, weight, bias}, type(dims, "f32"), Precision::F64), dims, expected,
                 1e-12);
  }
}

TEST_F(ReferenceTest, ChannelsLastIsTheSameTransposed) {
  Case c = kConvs[3];
  std::vector<int64_t> dims = convResult(c);
  Tensor x = random(DType::F32, c.x, 1);
  Tensor weight = random(DType::F32, c.weight, 2);
  Tensor first = evaluate("tn.conv %0, %1 {" + attributes(c) + ", channelsLast = false}",
                          {x, weight}, type(dims, "f32"));
  Tensor xLast = evaluate("tn.transpose %0 [0, 2, 3, 1]", x, "tensor<2x17x15x3xf32>");
  std::vector<int64_t> lastDims = {dims[0], dims[2], dims[3], dims[1]};
  Tensor last = evaluate("tn.conv %0, %1 {" + attributes(c) + ", channelsLast = true}",
                         {xLast, weight}, type(lastDims, "f32"));
  Tensor expected = evaluate("tn.transpose %0 [0, 2, 3, 1]", first, type(lastDims, "f32"));
  expectTensor(last, lastDims, valuesOf(expected));
}

TEST_F(ReferenceTest, ConvolutionsOfIntegersAreExact) {
  Case c = kConvs[1];
  std::vector<int64_t> dims = convResult(c);
  Tensor x = random(DType::I32, c.x, 1);
  Tensor weight = random(DType::I32, c.weight, 2);
  std::vector<double> none(c.weight[0]);
  expectTensor(evaluate("tn.conv %0, %1 {" + attributes(c) + ", channelsLast = false}", {x, weight},
                        type(dims, "i32")),
               dims, naiveConv(c, dims, valuesOf(x), valuesOf(weight), none));
}

TEST_F(ReferenceTest, ConvolutionsOfBytesAreSummedInWords) {
  for (const Case &c : kConvs) {
    std::vector<int64_t> dims = convResult(c);
    SCOPED_TRACE(attributes(c));
    Tensor x = random(DType::U8, c.x, 1);
    Tensor weight = random(DType::I8, c.weight, 2);
    Tensor bias = random(DType::I32, {c.weight[0]}, 3);
    expectTensor(evaluate("tn.conv %0, %1 bias %2 {" + attributes(c) + ", channelsLast = false}",
                          {x, weight, bias}, type(dims, "i32")),
                 dims, naiveConv(c, dims, valuesOf(x), valuesOf(weight), valuesOf(bias)));
  }
}

TEST_F(ReferenceTest, TransposedConvolutionsFollowTheDefinition) {
  const Case cases[] = {
      {{1, 1, 3}, {1, 1, 2}, {1}, {0, 0}, {1}, {0}, 1},
      {{2, 4, 5}, {4, 3, 3}, {2}, {1, 1}, {1}, {1}, 2},
      {{1, 3, 4, 5}, {3, 2, 3, 3}, {2, 3}, {1, 0, 1, 2}, {2, 1}, {1, 0}, 1},
      {{1, 2, 2, 3, 2}, {2, 1, 2, 2, 2}, {1, 2, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 2}, {0, 1, 0}, 2},
  };
  for (const Case &c : cases) {
    SCOPED_TRACE(attributes(c));
    std::vector<int64_t> dims = {c.x[0], c.weight[1] * c.groups};
    size_t spatial = c.strides.size();
    for (size_t d = 0; d < spatial; ++d) {
      dims.push_back((c.x[2 + d] - 1) * c.strides[d] + c.outputPadding[d] +
                     (c.weight[2 + d] - 1) * c.dilations[d] + 1 - c.pads[d] - c.pads[spatial + d]);
    }
    Tensor x = random(DType::F64, c.x, 4);
    Tensor weight = random(DType::F64, c.weight, 5);
    expectTensor(evaluate("tn.conv_transpose %0, %1 {" + attributes(c) +
                              ", outputPadding = " + list(c.outputPadding) + "}",
                          {x, weight}, type(dims, "f64")),
                 dims, naiveConvTranspose(c, dims, valuesOf(x), valuesOf(weight)), 1e-13);
  }
}

} // namespace

// Tests matrix products and attention against plain loops over doubles, across the borders of the
// product's blocks. Relies on seeded random operands.
#include "ReferenceFixture.h"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::reference;

namespace {

/// a [rows, depth] times b [depth, columns], plain.
std::vector<double> naiveProduct(const std::vector<double> &a, const std::vector<double> &b,
                                 int64_t rows, int64_t columns, int64_t depth) {
  std::vector<double> y(rows * columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t k = 0; k < depth; ++k) {
        y[i * columns + j] += a[i * depth + k] * b[k * columns + j];
      }
    }
  }
  return y;
}

TEST_F(ReferenceTest, MatmulByHand) {
  expectTensor(evaluate("tn.matmul %0, %1",
                        {floats({2, 2}, {1, 2, 3, 4}), floats({2, 3}, {1, 0, 2, 0, 1, 3})},
                        "tensor<2x3xf32>"),
               {2, 3}, {1, 2, 8, 3, 4, 18});
}

TEST_F(ReferenceTest, MatmulAcrossBlockBorders) {
  const int64_t rows = 101, columns = 205, depth = 515;
  Tensor a = random(DType::F32, {rows, depth}, 1);
  Tensor b = random(DType::F32, {depth, columns}, 2);
  std::vector<double> expected = naiveProduct(valuesOf(a), valuesOf(b), rows, columns, depth);
  expectTensor(evaluate("tn.matmul %0, %1", {a, b}, "tensor<101x205xf32>"), {rows, columns},
               expected, 2e-6);
  // In float64 only the order of the sums can differ, and here it does not.
  expectTensor(evaluate("tn.matmul %0, %1", {a, b}, "tensor<101x205xf32>", Precision::F64),
               {rows, columns}, expected, 1e-12);
}

TEST_F(ReferenceTest, MatmulTransposes) {
  Tensor a = random(DType::F32, {5, 7}, 3);
  Tensor at = evaluate("tn.transpose %0 [1, 0]", a, "tensor<7x5xf32>");
  Tensor b = random(DType::F32, {7, 9}, 4);
  Tensor bt = evaluate("tn.transpose %0 [1, 0]", b, "tensor<9x7xf32>");
  std::vector<double> expected = valuesOf(evaluate("tn.matmul %0, %1", {a, b}, "tensor<5x9xf32>"));
  expectTensor(evaluate("tn.matmul %0, %1 {transposeA}", {at, b}, "tensor<5x9xf32>"), {5, 9},
               expected);
  expectTensor(evaluate("tn.matmul %0, %1 {transposeB}", {a, bt}, "tensor<5x9xf32>"), {5, 9},
               expected);
  expectTensor(evaluate("tn.matmul %0, %1 {transposeA, transposeB}", {at, bt}, "tensor<5x9xf32>"),
               {5, 9}, expected);
}

TEST_F(ReferenceTest, MatmulBroadcastsBatches) {
  Tensor a = random(DType::F64, {2, 1, 3, 4}, 5);
  Tensor b = random(DType::F64, {5, 4, 2}, 6);
  Tensor y = evaluate("tn.matmul %0, %1", {a, b}, "tensor<2x5x3x2xf64>");
  std::vector<double> av = valuesOf(a), bv = valuesOf(b), expected;
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      std::vector<double> left(av.begin() + i * 12, av.begin() + i * 12 + 12);
      std::vector<double> right(bv.begin() + j * 8, bv.begin() + j * 8 + 8);
      std::vector<double> part = naiveProduct(left, right, 3, 2, 4);
      expected.insert(expected.end(), part.begin(), part.end());
    }
  }
  expectTensor(y, {2, 5, 3, 2}, expected, 1e-14);
}

TEST_F(ReferenceTest, MatmulOfIntegersWraps) {
  Tensor a = make(DType::I32, {1, 2}, {65536, 3});
  Tensor b = make(DType::I32, {2, 1}, {65536, 5});
  expectTensor(evaluate("tn.matmul %0, %1", {a, b}, "tensor<1x1xi32>"), {1, 1}, {15});
  Tensor c = make(DType::U8, {1, 2}, {16, 15});
  expectTensor(evaluate("tn.matmul %0, %1 {transposeB}", {c, c}, "tensor<1x1xui8>"), {1, 1},
               {481 % 256});
}

TEST_F(ReferenceTest, MatmulOfNothingIsZero) {
  expectTensor(
      evaluate("tn.matmul %0, %1", {floats({2, 0}, {}), floats({0, 2}, {})}, "tensor<2x2xf32>"),
      {2, 2}, {0, 0, 0, 0});
  expectTensor(
      evaluate("tn.matmul %0, %1", {floats({0, 2}, {}), floats({2, 1}, {1, 2})}, "tensor<0x1xf32>"),
      {0, 1}, {});
}

TEST_F(ReferenceTest, ProductsDoNotLoseSmallAddends) {
  std::vector<double> values(101, 1);
  values[0] = 1e8;
  Tensor ones = floats({101, 1}, std::vector<double>(101, 1));
  expectTensor(evaluate("tn.matmul %0, %1", {floats({1, 101}, values), ones}, "tensor<1x1xf32>"),
               {1, 1}, {float(1e8 + 100)});
}

/// q [b, h, s, d], k and v [b, hk, t, d], everything plain.
std::vector<double> naiveAttention(const std::vector<double> &q, const std::vector<double> &k,
                                   const std::vector<double> &v, const std::vector<double> &mask,
                                   int64_t batches, int64_t heads, int64_t shared, int64_t queries,
                                   int64_t keys, int64_t size, double scale, bool causal) {
  std::vector<double> y(q.size());
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      int64_t kv = (b * shared + h / (heads / shared)) * keys * size;
      for (int64_t i = 0; i < queries; ++i) {
        int64_t row = ((b * heads + h) * queries + i) * size;
        std::vector<double> weights(keys);
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t d = 0; d < size; ++d) {
            score += q[row + d] * k[kv + j * size + d];
          }
          bool visible = !causal || j <= i + keys - queries;
          weights[j] = visible ? std::exp(score * scale + mask[i * keys + j]) : 0;
          sum += weights[j];
        }
        for (int64_t j = 0; j < keys; ++j) {
          for (int64_t d = 0; d < size; ++d) {
            y[row + d] += weights[j] / sum * v[kv + j * size + d];
          }
        }
      }
    }
  }
  return y;
}

TEST_F(ReferenceTest, AttentionWithSharedHeadsMaskAndCausality) {
  Tensor q = random(DType::F64, {2, 4, 3, 5}, 7);
  Tensor k = random(DType::F64, {2, 2, 6, 5}, 8);
  Tensor v = random(DType::F64, {2, 2, 6, 5}, 9);
  Tensor mask = random(DType::F64, {3, 6}, 10);
  for (bool causal : {false, true}) {
    std::string op = std::string("tn.attention %0, %1, %2 mask %3 {scale = 0.3 : f64, causal = ") +
                     (causal ? "true" : "false") +
                     ", headsInner = array<i1: false, false, false, false>}";
    expectTensor(evaluate(op, {q, k, v, mask}, "tensor<2x4x3x5xf64>"), {2, 4, 3, 5},
                 naiveAttention(valuesOf(q), valuesOf(k), valuesOf(v), valuesOf(mask), 2, 4, 2, 3,
                                6, 5, 0.3, causal),
                 1e-13);
  }
}

/// A start and a window hide what a mask of minus infinity hides.
TEST_F(ReferenceTest, AttentionFromAStartWithAWindow) {
  Tensor q = random(DType::F64, {1, 2, 3, 5}, 7);
  Tensor k = random(DType::F64, {1, 2, 9, 5}, 8);
  Tensor v = random(DType::F64, {1, 2, 9, 5}, 9);
  const std::string tail = ", headsInner = array<i1: false, false, false, false>";
  for (auto [first, window] :
       {std::pair(0, 0), std::pair(4, 0), std::pair(4, 2), std::pair(7, 3)}) {
    Tensor mask = random(DType::F64, {3, 9}, 10), start = random(DType::I64, {1}, 11);
    *start.as<int64_t>() = first;
    for (int64_t i = 0; i < mask.count(); ++i) {
      int64_t behind = i / 9 + first - i % 9;
      bool isSeen = behind >= 0 && (window == 0 || behind < window);
      mask.as<double>()[i] = isSeen ? 0 : -std::numeric_limits<double>::infinity();
    }
    Tensor masked =
        evaluate("tn.attention %0, %1, %2 mask %3 {scale = 0.3 : f64, causal = false" + tail + "}",
                 {q, k, v, mask}, "tensor<1x2x3x5xf64>");
    std::string started = "tn.attention %0, %1, %2 start %3 {scale = 0.3 : f64, causal = true" +
                          tail + ", window = " + std::to_string(window) + " : i64}";
    expectTensor(evaluate(started, {q, k, v, start}, "tensor<1x2x3x5xf64>"), {1, 2, 3, 5},
                 valuesOf(masked));
  }
}

TEST_F(ReferenceTest, AttentionReadsHeadsInside) {
  Tensor q = random(DType::F32, {2, 3, 4, 5}, 7);
  Tensor k = random(DType::F32, {2, 3, 6, 5}, 8);
  Tensor v = random(DType::F32, {2, 3, 6, 5}, 9);
  auto swapped = [&](const Tensor &tensor) {
    std::vector<int64_t> dims = {tensor.dims()[0], tensor.dims()[2], tensor.dims()[1], 5};
    std::string type = "tensor<2x" + std::to_string(dims[1]) + "x3x5xf32>";
    return evaluate("tn.transpose %0 [0, 2, 1, 3]", tensor, type);
  };
  const std::string tail = "{scale = 1.0 : f64, causal = false, headsInner = array<i1: ";
  Tensor plain = evaluate("tn.attention %0, %1, %2 " + tail + "false, false, false, false>}",
                          {q, k, v}, "tensor<2x3x4x5xf32>");
  Tensor inner = evaluate("tn.attention %0, %1, %2 " + tail + "true, true, true, true>}",
                          {swapped(q), swapped(k), swapped(v)}, "tensor<2x4x3x5xf32>");
  expectTensor(inner, {2, 4, 3, 5}, valuesOf(swapped(plain)));
}

} // namespace

// A matrix product with bias, residual and gelu, which cuBLASLt has in its tanh form only. Relies
// on the tanh unit being far faster than the library's erf: with that, the epilogue took longer
// than a pass of its own (436 us for 24,576 x 4,096 x 1,024 on an H200; this form 320, cuBLASLt 312
// without any gelu).

#include "runtime/library/cudnn/Problem.h"
#include "support/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::library::cudnn {
namespace {

struct Sizes {
  int64_t m, n, k, batch, lda, ldb, ldd, strideA, strideB, strideD;
};

/// gelu(x) = h + h * tanh(x * (a + t * (b + t * c))), h = x / 2, t = min(x * x, most). The three
/// coefficients are fitted to erf: the form alone is wrong by at most 2.5e-5, the unit by 2.5e-4 *
/// |x|, half of what rounding to F16 may change in x.
enum Number : int64_t { kA, kB, kC, kMost, kHalf };
constexpr float kNumbers[] = {0.7975079f, 0.0370057f, -0.00035152f, 69, 0.5f};

class Product final : public Problem {
public:
  Product(const engine::MatmulCall &descriptor, const Sizes &dims)
      : call(descriptor), sizes(dims), type(*dataTypeOf(call.type)) {
    numbers.assign(std::begin(kNumbers), std::end(kNumbers));
  }

  std::string text() const override {
    return strCat("product ", nameOf(call.type), " of ", sizes.m, " x ", sizes.n, " x ", sizes.k,
                  ", batch ", sizes.batch, ", with gelu");
  }
  std::vector<size_t> bufferBytes() const override;
  Status build(Graph &graph) const override;

private:
  Layout between() const { return rowMajor({sizes.batch, sizes.m, sizes.n}); }
  Layout result() const { return operand(sizes.m, sizes.n, false, sizes.ldd, sizes.strideD); }
  Layout operand(int64_t rows, int64_t columns, bool isTransposed, int64_t leading,
                 int64_t stride) const;
  Result<size_t> addTo(Graph &graph, size_t value, int64_t id, const Layout &layout) const;
  Result<size_t> apply(Graph &graph, PointwiseMode mode, size_t value, size_t other) const;
  Result<size_t> applyNumber(Graph &graph, PointwiseMode mode, size_t value, Number number) const;
  Result<size_t> addTanh(Graph &graph, size_t x) const;

  engine::MatmulCall call;
  Sizes sizes;
  DataType type;
};

/// A batch that lies in one place is one matrix for all.
Layout Product::operand(int64_t rows, int64_t columns, bool isTransposed, int64_t leading,
                        int64_t stride) const {
  Layout layout{{sizes.batch, rows, columns},
                {stride, isTransposed ? 1 : leading, isTransposed ? leading : 1}};
  if (stride == 0 || sizes.batch == 1) {
    layout.dims[0] = 1;
    layout.strides[0] = rows * columns;
  }
  return layout;
}

std::vector<size_t> Product::bufferBytes() const {
  auto extent = [&](int64_t rows, int64_t columns, bool isTransposed, int64_t leading,
                    int64_t stride) {
    int64_t last = isTransposed ? (columns - 1) * leading + rows : (rows - 1) * leading + columns;
    return static_cast<size_t>((sizes.batch - 1) * stride + last) * bitWidth(call.type) / 8;
  };
  const Sizes &s = sizes;
  std::vector<size_t> bytes = {extent(s.m, s.k, call.transposeA, s.lda, s.strideA),
                               extent(s.k, s.n, call.transposeB, s.ldb, s.strideB)};
  if (call.hasBias) {
    bytes.push_back(static_cast<size_t>(s.n) * bitWidth(call.type) / 8);
  }
  bytes.resize(size_t(3) + call.hasBias + call.hasResidual,
               extent(s.m, s.n, false, s.ldd, s.strideD));
  return bytes;
}

Result<size_t> Product::apply(Graph &graph, PointwiseMode mode, size_t value, size_t other) const {
  TENON_ASSIGN(size_t result, graph.between(between()));
  TENON_TRY(graph.pointwise(mode, value, other, result));
  return result;
}

Result<size_t> Product::applyNumber(Graph &graph, PointwiseMode mode, size_t value,
                                    Number number) const {
  TENON_ASSIGN(size_t factor, graph.number(kFirstNumber + number, 3));
  return apply(graph, mode, value, factor);
}

Result<size_t> Product::addTo(Graph &graph, size_t value, int64_t id, const Layout &layout) const {
  TENON_ASSIGN(size_t other, graph.tensor(id, layout, type));
  return apply(graph, PointwiseMode::Add, value, other);
}

Result<size_t> Product::addTanh(Graph &graph, size_t x) const {
  TENON_ASSIGN(size_t square, apply(graph, PointwiseMode::Multiply, x, x));
  TENON_ASSIGN(size_t t, applyNumber(graph, PointwiseMode::Min, square, kMost));
  TENON_ASSIGN(size_t third, applyNumber(graph, PointwiseMode::Multiply, t, kC));
  TENON_ASSIGN(size_t second, applyNumber(graph, PointwiseMode::Add, third, kB));
  TENON_ASSIGN(size_t scaled, apply(graph, PointwiseMode::Multiply, second, t));
  TENON_ASSIGN(size_t first, applyNumber(graph, PointwiseMode::Add, scaled, kA));
  TENON_ASSIGN(size_t angle, apply(graph, PointwiseMode::Multiply, first, x));
  TENON_ASSIGN(size_t result, graph.between(between()));
  TENON_TRY(graph.pointwise(PointwiseMode::Tanh, angle, std::nullopt, result));
  return result;
}

Status Product::build(Graph &graph) const {
  const Sizes &s = sizes;
  TENON_ASSIGN(size_t a,
               graph.tensor(0, operand(s.m, s.k, call.transposeA, s.lda, s.strideA), type));
  TENON_ASSIGN(size_t b,
               graph.tensor(1, operand(s.k, s.n, call.transposeB, s.ldb, s.strideB), type));
  TENON_ASSIGN(size_t x, graph.between(between()));
  TENON_TRY(graph.matmul(a, b, x));
  if (call.hasBias) {
    TENON_ASSIGN(x, addTo(graph, x, 2, rowMajor({1, 1, s.n})));
  }
  if (call.hasResidual) {
    TENON_ASSIGN(x, addTo(graph, x, 2 + call.hasBias, result()));
  }
  TENON_ASSIGN(size_t tanh, addTanh(graph, x));
  TENON_ASSIGN(size_t half, applyNumber(graph, PointwiseMode::Multiply, x, kHalf));
  TENON_ASSIGN(size_t part, apply(graph, PointwiseMode::Multiply, half, tanh));
  TENON_ASSIGN(size_t y, graph.tensor(2 + call.hasBias + call.hasResidual, result(), type));
  return graph.pointwise(PointwiseMode::Add, part, half, y);
}

} // namespace

Result<std::unique_ptr<Problem>> problemOf(const engine::MatmulCall &call,
                                           std::span<const int64_t> values) {
  Sizes sizes;
  static_assert(sizeof(sizes) == engine::kMatmulSizes * sizeof(int64_t));
  std::memcpy(&sizes, values.data(), sizeof(sizes));
  std::span<const int64_t> dims = values.first(4);
  bool isEmpty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  bool isHalf = call.type == DType::F16 || call.type == DType::BF16;
  if (!isHalf || isEmpty || call.activation != engine::LibraryActivation::Gelu) {
    return Status::error(ErrorId::LibraryUnsupported,
                         strCat("cuDNN is called for products with gelu of fp16 and bf16, not for ",
                                sizes.m, " x ", sizes.n, " x ", sizes.k, " of ", nameOf(call.type)),
                         "compile the model for fp16 or bf16");
  }
  return std::unique_ptr<Problem>(new Product(call, sizes));
}

} // namespace tenon::library::cudnn

// Attention in the form that cuDNN's fused engines know: product, scale, mask, softmax in its five
// steps, product. Relies on keys being given to the first product as the transpose of how they lie.

#include "runtime/library/cudnn/Problem.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::library::cudnn {
namespace {

struct Sizes {
  int64_t batch, heads, keyHeads, queries, keys, width, valueWidth;
  int64_t q[3], k[3], v[3], y[3]; ///< strides of batch, head and row
  int64_t mask[3];                ///< strides of batch, head and query; keys lie next to each other
  int64_t offsets[3];             ///< of Q, K and V
};

class Attention final : public Problem {
public:
  Attention(const engine::AttentionCall &descriptor, const Sizes &dims)
      : call(descriptor), sizes(dims), type(*dataTypeOf(call.type)) {
    numbers = {call.scale};
  }

  std::string text() const override {
    return strCat("attention ", nameOf(call.type), " [", sizes.batch, ", ", sizes.heads, ", ",
                  sizes.queries, ", ", sizes.width, "] over ", sizes.keyHeads, " heads of ",
                  sizes.keys, " keys");
  }
  std::vector<size_t> bufferBytes() const override;
  size_t alignment(size_t given) const override;
  Status build(Graph &graph) const override;
  void *pointerOf(int64_t id, std::span<void *const> buffers) const override;

private:
  size_t elementBytes() const { return bitWidth(call.type) / 8; }
  int64_t maskDim(int i, int64_t size) const { return sizes.mask[i] == 0 ? 1 : size; }
  Layout maskLayout() const;
  Layout scores() const { return rowMajor({sizes.batch, sizes.heads, sizes.queries, sizes.keys}); }
  Result<size_t> addScores(Graph &graph) const;
  Result<size_t> addSoftmax(Graph &graph, size_t value) const;

  engine::AttentionCall call;
  Sizes sizes;
  DataType type;
};

std::vector<size_t> Attention::bufferBytes() const {
  auto extent = [&](int64_t offset, std::initializer_list<int64_t> dims, const int64_t *strides) {
    for (int64_t dim : dims) {
      offset += (dim - 1) * *strides++;
    }
    return static_cast<size_t>(offset) * elementBytes();
  };
  const Sizes &s = sizes;
  std::vector<size_t> bytes = {
      extent(s.offsets[0] + s.width, {s.batch, s.heads, s.queries}, s.q),
      extent(s.offsets[1] + s.width, {s.batch, s.keyHeads, s.keys}, s.k),
      extent(s.offsets[2] + s.valueWidth, {s.batch, s.keyHeads, s.keys}, s.v)};
  if (call.hasMask) {
    bytes.push_back(extent(s.keys, {s.batch, s.heads, s.queries}, s.mask));
  }
  bytes.push_back(extent(s.valueWidth, {s.batch, s.heads, s.queries}, s.y));
  return bytes;
}

size_t Attention::alignment(size_t given) const {
  for (int64_t offset : sizes.offsets) {
    size_t bytes = static_cast<size_t>(offset) * elementBytes();
    given = bytes == 0 ? given : std::min(given, bytes & -bytes);
  }
  return given;
}

void *Attention::pointerOf(int64_t id, std::span<void *const> buffers) const {
  size_t offset = id < 3 ? static_cast<size_t>(sizes.offsets[id]) * elementBytes() : 0;
  return static_cast<char *>(buffers[static_cast<size_t>(id)]) + offset;
}

Layout Attention::maskLayout() const {
  Layout layout = rowMajor(
      {maskDim(0, sizes.batch), maskDim(1, sizes.heads), maskDim(2, sizes.queries), sizes.keys});
  for (int i = 0; i < 3; ++i) {
    layout.strides[i] = sizes.mask[i] == 0 ? layout.strides[i] : sizes.mask[i];
  }
  return layout;
}

Result<size_t> Attention::addScores(Graph &graph) const {
  const Sizes &s = sizes;
  TENON_ASSIGN(
      size_t q,
      graph.tensor(0, {{s.batch, s.heads, s.queries, s.width}, {s.q[0], s.q[1], s.q[2], 1}}, type));
  TENON_ASSIGN(
      size_t k,
      graph.tensor(1, {{s.batch, s.keyHeads, s.width, s.keys}, {s.k[0], s.k[1], 1, s.k[2]}}, type));
  TENON_ASSIGN(size_t product, graph.between(scores()));
  TENON_TRY(graph.matmul(q, k, product));
  TENON_ASSIGN(size_t scale, graph.number(kFirstNumber, 4));
  TENON_ASSIGN(size_t scaled, graph.between(scores()));
  TENON_TRY(graph.pointwise(PointwiseMode::Multiply, product, scale, scaled));
  if (!call.hasMask) {
    return scaled;
  }
  TENON_ASSIGN(size_t mask, graph.tensor(3, maskLayout(), type));
  TENON_ASSIGN(size_t masked, graph.between(scores()));
  TENON_TRY(graph.pointwise(PointwiseMode::Add, scaled, mask, masked));
  return masked;
}

Result<size_t> Attention::addSoftmax(Graph &graph, size_t value) const {
  Layout rows = rowMajor({sizes.batch, sizes.heads, sizes.queries, 1});
  TENON_ASSIGN(size_t most, graph.between(rows));
  TENON_TRY(graph.reduction(ReductionMode::Max, value, most));
  TENON_ASSIGN(size_t below, graph.between(scores()));
  TENON_TRY(graph.pointwise(PointwiseMode::Subtract, value, most, below));
  TENON_ASSIGN(size_t weight, graph.between(scores()));
  TENON_TRY(graph.pointwise(PointwiseMode::Exp, below, std::nullopt, weight));
  TENON_ASSIGN(size_t sum, graph.between(rows));
  TENON_TRY(graph.reduction(ReductionMode::Sum, weight, sum));
  // Nobody reads the logarithm of the sum, but without it the engines do not know the pattern.
  TENON_ASSIGN(size_t logarithm, graph.between(rows));
  TENON_TRY(graph.pointwise(PointwiseMode::Log, sum, std::nullopt, logarithm));
  TENON_ASSIGN(size_t unread, graph.between(rows));
  TENON_TRY(graph.pointwise(PointwiseMode::Add, most, logarithm, unread));
  TENON_ASSIGN(size_t share, graph.between(scores(), type));
  TENON_TRY(graph.pointwise(PointwiseMode::Divide, weight, sum, share));
  return share;
}

Status Attention::build(Graph &graph) const {
  const Sizes &s = sizes;
  TENON_ASSIGN(size_t value, addScores(graph));
  TENON_ASSIGN(size_t share, addSoftmax(graph, value));
  TENON_ASSIGN(
      size_t v,
      graph.tensor(2, {{s.batch, s.keyHeads, s.keys, s.valueWidth}, {s.v[0], s.v[1], s.v[2], 1}},
                   type));
  TENON_ASSIGN(size_t y, graph.tensor(3 + call.hasMask,
                                      {{s.batch, s.heads, s.queries, s.valueWidth},
                                       {s.y[0], s.y[1], s.y[2], 1}},
                                      type));
  return graph.matmul(share, v, y);
}

} // namespace

Result<std::unique_ptr<Problem>> problemOf(const engine::AttentionCall &call,
                                           std::span<const int64_t> values) {
  Sizes sizes;
  static_assert(sizeof(sizes) == engine::kAttentionSizes * sizeof(int64_t));
  std::memcpy(&sizes, values.data(), sizeof(sizes));
  std::span<const int64_t> dims = values.first(7);
  bool isEmpty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  bool isHalf = call.type == DType::F16 || call.type == DType::BF16;
  if (!isHalf || isEmpty || call.isCausal || sizes.heads % sizes.keyHeads != 0) {
    return Status::error(ErrorId::LibraryUnsupported,
                         strCat("cuDNN is not called for attention of type ", nameOf(call.type),
                                " with ", sizes.heads, " heads over ", sizes.keyHeads, " and ",
                                sizes.keys, " keys"),
                         "compile the model for fp16 or bf16");
  }
  return std::unique_ptr<Problem>(new Attention(call, sizes));
}

} // namespace tenon::library::cudnn

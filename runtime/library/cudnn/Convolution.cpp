// A convolution with residual, bias and activation. Relies on that order, for which cuDNN has its
// own fused kernels.

#include "runtime/library/cudnn/Problem.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::library::cudnn {
namespace {

struct ConvSizes {
  int64_t n, h, w, c, k, r, s, p, q;
};

PointwiseMode modeOf(engine::LibraryActivation activation) {
  return activation == engine::LibraryActivation::GeluTanh ? PointwiseMode::GeluTanh
                                                           : PointwiseMode::Relu;
}

class Convolution final : public Problem {
public:
  Convolution(const engine::ConvCall &descriptor, const ConvSizes &dims)
      : call(descriptor), sizes(dims), type(*dataTypeOf(call.type)) {}

  std::string text() const override {
    return strCat("convolution ", nameOf(call.type), " [", sizes.n, ", ", sizes.h, ", ", sizes.w,
                  ", ", sizes.c, "] x [", sizes.k, ", ", sizes.r, ", ", sizes.s, ", ",
                  sizes.c / call.groups, "]");
  }
  std::vector<size_t> bufferBytes() const override;
  bool allowsTensorCores() const override { return call.type != DType::F32 || call.allowTf32; }
  size_t proposal() const override { return call.proposal; }
  Status build(Graph &graph) const override { return buildProduct(graph, true); }
  bool canSplit() const override {
    return call.hasBias || call.hasResidual || call.activation != engine::LibraryActivation::None;
  }
  Status buildFirst(Graph &graph) const override { return buildProduct(graph, false); }
  Status buildRest(Graph &graph) const override;

private:
  int64_t residualId() const { return 2 + call.hasBias; }
  int64_t resultId() const { return 2 + call.hasBias + call.hasResidual; }
  Layout result() const { return channelsLast({sizes.n, sizes.k, sizes.p, sizes.q}); }
  Layout bias() const { return channelsLast({1, sizes.k, 1, 1}); }
  /// The convolution, with all that follows it if `isFused`.
  Status buildProduct(Graph &graph, bool isFused) const;
  /// Adds what follows the product; `value` is the tensor so far. The last tensor is the result.
  Status addEpilogue(Graph &graph, size_t value) const;

  engine::ConvCall call;
  ConvSizes sizes;
  DataType type;
};

std::vector<size_t> Convolution::bufferBytes() const {
  auto bytesOf = [&](std::initializer_list<int64_t> dims) {
    int64_t elements = 1;
    for (int64_t dim : dims) {
      elements *= dim;
    }
    return static_cast<size_t>(elements) * bitWidth(call.type) / 8;
  };
  std::vector<size_t> bytes = {bytesOf({sizes.n, sizes.h, sizes.w, sizes.c}),
                               bytesOf({sizes.k, sizes.r, sizes.s, sizes.c / call.groups})};
  if (call.hasBias) {
    bytes.push_back(bytesOf({sizes.k}));
  }
  bytes.resize(static_cast<size_t>(resultId()) + 1, bytesOf({sizes.n, sizes.p, sizes.q, sizes.k}));
  return bytes;
}

Status Convolution::addEpilogue(Graph &graph, size_t value) const {
  unsigned left = unsigned(call.hasBias) + call.hasResidual +
                  (call.activation != engine::LibraryActivation::None);
  auto next = [&]() -> Result<size_t> {
    return --left == 0 ? graph.tensor(resultId(), result(), type) : graph.between(result());
  };
  if (call.hasResidual) {
    TENON_ASSIGN(size_t residual, graph.tensor(residualId(), result(), type));
    TENON_ASSIGN(size_t sum, next());
    TENON_TRY(graph.pointwise(PointwiseMode::Add, value, residual, sum));
    value = sum;
  }
  if (call.hasBias) {
    TENON_ASSIGN(size_t added, graph.tensor(2, bias(), type));
    TENON_ASSIGN(size_t sum, next());
    TENON_TRY(graph.pointwise(PointwiseMode::Add, value, added, sum));
    value = sum;
  }
  if (call.activation != engine::LibraryActivation::None) {
    TENON_ASSIGN(size_t last, next());
    TENON_TRY(graph.pointwise(modeOf(call.activation), value, std::nullopt, last));
  }
  return Status::ok();
}

Status Convolution::buildProduct(Graph &graph, bool isFused) const {
  TENON_ASSIGN(size_t x, graph.tensor(0, channelsLast({sizes.n, sizes.c, sizes.h, sizes.w}), type));
  TENON_ASSIGN(
      size_t w,
      graph.tensor(1, channelsLast({sizes.k, sizes.c / call.groups, sizes.r, sizes.s}), type));
  bool isLast = !isFused || !canSplit();
  TENON_ASSIGN(size_t y,
               isLast ? graph.tensor(resultId(), result(), type) : graph.between(result()));
  TENON_TRY(graph.convolution(x, w, y,
                              {{call.strides[0], call.strides[1]},
                               {call.dilations[0], call.dilations[1]},
                               {call.padBefore[0], call.padBefore[1]},
                               {call.padAfter[0], call.padAfter[1]}}));
  return isLast ? Status::ok() : addEpilogue(graph, y);
}

Status Convolution::buildRest(Graph &graph) const {
  TENON_ASSIGN(size_t product, graph.tensor(kResultAsInput, result(), type));
  return addEpilogue(graph, product);
}

} // namespace

Result<std::unique_ptr<Problem>> problemOf(const engine::ConvCall &call,
                                           std::span<const int64_t> values) {
  ConvSizes sizes{values[0], values[1], values[2], values[3], values[4],
                  values[5], values[6], values[7], values[8]};
  bool isEmpty = std::any_of(values.begin(), values.end(), [](int64_t v) { return v == 0; });
  if (!dataTypeOf(call.type) || isEmpty || sizes.c % call.groups != 0) {
    return Status::error(ErrorId::LibraryUnsupported,
                         strCat("cuDNN is not called for empty convolutions, those of type ",
                                nameOf(call.type), " or ", sizes.c, " channels in ", call.groups,
                                " groups"),
                         "compile the model for another precision");
  }
  return std::unique_ptr<Problem>(new Convolution(call, sizes));
}

} // namespace tenon::library::cudnn

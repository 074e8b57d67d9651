// Negative log likelihood and softmax cross entropy: gathers of the wanted class, weighted and
// reduced. Relies on the class being dim 1 of the scores.
#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

Value sumAll(NodeContext &c, Value x) {
  if (!x || c.failed()) {
    return Value();
  }
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
  return c.reduce(tn::ReduceKind::sum, x, llvm::to_vector(llvm::seq<int64_t>(0, rank)), false);
}

/// Loss of log probabilities [N, C, d...] against the classes of input 1 [N, d...].
Value likelihoodLoss(NodeContext &c, Value logProbabilities) {
  Type index = c.builder().getI64Type();
  Value target = c.cast(c.value(1), index);
  tn::Dims dims = c.dims(1);
  tn::Dims column = dims;
  if (dims.empty() || c.rank(0) != c.rank(1) + 1) {
    c.error(ErrorId::OnnxBadNode,
            "the classes do not have the dimensions of the scores without the second");
    return Value();
  }
  column.insert(column.begin() + 1, c.constantSize(1));
  Value ignored;
  Value safe = target;
  if (c.hasAttribute("ignore_index")) {
    Value marker = c.integerConstant({c.integer("ignore_index", 0)}, {}, index);
    ignored = c.compare(target, tn::Predicate::eq, marker);
    safe = c.select(ignored, c.scalar(0, index), target);
  }
  Value picked =
      c.make<tn::GatherElementsOp>(logProbabilities, c.reshape(safe, column), int64_t{1});
  Value loss = c.unary<tn::NegOp>(c.reshape(picked, dims));
  Value weight = c.has(2) ? c.make<tn::GatherOp>(c.value(2), safe, int64_t{0})
                          : c.broadcast(c.scalarLike(1, loss), dims);
  if (ignored) {
    weight = c.select(ignored, c.scalarLike(0, loss), weight);
  }
  bool weighted = ignored || c.has(2);
  loss = weighted ? c.mul(loss, weight) : loss;
  std::string reduction = c.text("reduction", "mean");
  if (reduction == "none") {
    return loss;
  }
  if (reduction == "sum") {
    return sumAll(c, loss);
  }
  if (reduction != "mean") {
    c.error(ErrorId::OnnxBadAttribute, "attribute 'reduction' has an unknown value");
  }
  return c.div(sumAll(c, loss), sumAll(c, weight));
}

void negativeLogLikelihood(NodeContext &c) { c.setOutput(0, likelihoodLoss(c, c.value(0))); }

void softmaxCrossEntropy(NodeContext &c) {
  Value logProbabilities = c.unary<tn::SoftmaxOp>(c.value(0), int64_t{1}, true);
  c.setOutput(0, likelihoodLoss(c, logProbabilities));
  c.setOutput(1, logProbabilities);
}

constexpr Attributes kLoss = {{"ignore_index", kInt}, {"reduction", kString}};

constexpr OpRow kLossOpRows[] = {
    {"NegativeLogLikelihoodLoss", 12, 2, 3, 1, negativeLogLikelihood, kLoss},
    {"SoftmaxCrossEntropyLoss", 12, 2, 3, 2, softmaxCrossEntropy, kLoss},
};

} // namespace

ArrayRef<OpRow> lossRows() { return kLossOpRows; }

} // namespace tenon::onnx

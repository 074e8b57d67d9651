// Joins the families' generators and makes models of them.
#include "test/random/Operators.h"

#include <algorithm>

namespace tenon::random {

const std::vector<Operator> &operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> joined;
    for (std::vector<Operator> family :
         {elementwiseOperators(), rowOperators(), contractionOperators(), windowOperators(),
          movementOperators(), indexingOperators(), otherOperators()}) {
      joined.insert(joined.end(), family.begin(), family.end());
    }
    return joined;
  }();
  return all;
}

std::span<const Missing> operatorsWithoutGenerator() {
  constexpr const char *kRandom = "its numbers are not those of a peer";
  constexpr const char *kRuntimes =
      "test/e2e/microsoft.py draws it, with ONNX Runtime as the truth";
  constexpr const char *kRare =
      "test/e2e/microsoft_rare.py draws it, with ONNX Runtime or its document as the truth";
  constexpr const char *kLearned =
      "test/e2e/machine_learning.py draws it, with ONNX Runtime as the truth";
  constexpr const char *kRecurrent =
      "test/e2e/recurrences.py has it, with ONNX Runtime as the truth";
  constexpr const char *kCounted =
      "data decides how large its result is; ONNX's suite has its cases";
  constexpr const char *kMade = "made of operations that are drawn; ONNX's suite has its cases";
  constexpr const char *kBodies =
      "imported in place; test/e2e/loops.py and ONNX's suite have its cases";
  static constexpr Missing kMissing[] = {
      {"Adagrad", kMade},
      {"Adam", kMade},
      {"AffineGrid", kMade},
      {"ArrayFeatureExtractor", kMade},
      {"Bernoulli", kRandom},
      {"BiasGelu", kRuntimes},
      {"Binarizer", kMade},
      {"BitCast", kMade},
      {"CDist", kRare},
      {"CausalConvWithState", kMade},
      {"CenterCropPad", kMade},
      {"Col2Im", kMade},
      {"ConcatFromSequence", kBodies},
      {"CumProd", kMade},
      {"DFT", kMade},
      {"DeformConv", kMade},
      {"Det", kMade},
      {"DynamicQuantizeLSTM", kRecurrent},
      {"DynamicQuantizeMatMul", kRuntimes},
      {"EmbedLayerNormalization", kRuntimes},
      {"FastGelu", kRuntimes},
      {"FeatureVectorizer", kLearned},
      {"FlexAttention", kMade},
      {"FusedConv", kRuntimes},
      {"FusedGemm", kRuntimes},
      {"FusedMatMul", kRuntimes},
      {"GatherBlockQuantized", kRare},
      {"GridSample", kMade},
      {"GroupQueryAttention", kRuntimes},
      {"Imputer", kLearned},
      {"Inverse", kRare},
      {"LabelEncoder", kLearned},
      {"LinearAttention", kMade},
      {"LinearClassifier", kLearned},
      {"LinearRegressor", kLearned},
      {"Loop", kBodies},
      {"MatMulIntegerToFloat", kRuntimes},
      {"MatMulNBits", kRuntimes},
      {"MaxUnpool", kMade},
      {"MelWeightMatrix", kMade},
      {"MoE", kRare},
      {"Momentum", kMade},
      {"MultiHeadAttention", kRuntimes},
      {"Multinomial", kRandom},
      {"NonMaxSuppression", kCounted},
      {"NonZero", kCounted},
      {"Normalizer", kLearned},
      {"OneHotEncoder", kLearned},
      {"Optional", kBodies},
      {"OptionalGetElement", kBodies},
      {"OptionalHasElement", kBodies},
      {"QAttention", kRuntimes},
      {"QGemm", kRuntimes},
      {"QLinearAdd", kRuntimes},
      {"QLinearAveragePool", kRuntimes},
      {"QLinearConcat", kRuntimes},
      {"QLinearGlobalAveragePool", kRuntimes},
      {"QLinearLeakyRelu", kRuntimes},
      {"QLinearMul", kRuntimes},
      {"QLinearSigmoid", kRuntimes},
      {"QLinearSoftmax", kRuntimes},
      {"QLinearWhere", kRuntimes},
      {"QMoE", kRare},
      {"QuickGelu", kRuntimes},
      {"RandomNormal", kRandom},
      {"RandomNormalLike", kRandom},
      {"RandomUniform", kRandom},
      {"RandomUniformLike", kRandom},
      {"RoiAlign", kMade},
      {"STFT", kMade},
      {"SVMClassifier", kLearned},
      {"SVMRegressor", kLearned},
      {"Scaler", kMade},
      {"Scan", kBodies},
      {"SequenceAt", kBodies},
      {"SequenceConstruct", kBodies},
      {"SequenceEmpty", kBodies},
      {"SequenceErase", kBodies},
      {"SequenceInsert", kBodies},
      {"SequenceLength", kBodies},
      {"SequenceMap", kBodies},
      {"SimplifiedLayerNormalization", kRuntimes},
      {"SkipLayerNormalization", kRuntimes},
      {"SkipSimplifiedLayerNormalization", kRuntimes},
      {"SplitToSequence", kBodies},
      {"TensorScatter", kMade},
      {"TfIdfVectorizer", kMade},
      {"TransposeMatMul", kRuntimes},
      {"TreeEnsemble", kLearned},
      {"TreeEnsembleClassifier", kLearned},
      {"TreeEnsembleRegressor", kLearned},
      {"Unique", kCounted},
  };
  return kMissing;
}

int64_t axisOf(Sketch &sketch, const Value &value) {
  int64_t axis = sketch.draw.below(value.rank());
  return sketch.draw.chance(0.4) ? axis - value.rank() : axis;
}

std::vector<int64_t> axesOf(Sketch &sketch, const Value &value, size_t most) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < value.rank(); ++axis) {
    if (axes.size() < most && sketch.draw.chance(0.5)) {
      axes.push_back(sketch.opset >= 11 && sketch.draw.chance(0.3) ? axis - value.rank() : axis);
    }
  }
  return axes;
}

Model makeModel(uint64_t seed, bool hasRelations) {
  constexpr int kMaxNodes = 12;
  constexpr int kMaxAttempts = 60;
  Sketch sketch(seed, hasRelations);
  // Small models are many: what is found in one is easy to see.
  int64_t wanted =
      sketch.draw.chance(0.5) ? sketch.draw.within(1, 4) : sketch.draw.within(2, kMaxNodes);
  // A few families a model, so that what fuses and what patterns look for comes together.
  std::vector<const Operator *> chosen;
  for (int64_t i = sketch.draw.within(2, 8); i > 0; --i) {
    chosen.push_back(&sketch.draw.of(operators()));
  }
  int64_t made = hasRelations && relate(sketch) ? 1 : 0;
  for (int attempt = 0; made < wanted && attempt < kMaxAttempts; ++attempt) {
    const Operator &next =
        sketch.draw.chance(0.6) ? *sketch.draw.of(chosen) : sketch.draw.of(operators());
    made += next.make(sketch) ? 1 : 0;
  }
  if (made == 0) {
    Value x = sketch.source(DType::F32, sketch.shape(1, 3));
    sketch.node("Relu", {x.name});
  }
  return sketch.finish();
}

} // namespace tenon::random

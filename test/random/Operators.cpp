// Joins the families' generators and makes models of them.
#include "test/random/Operators.h"

#include <algorithm>

namespace tenon::random {

const std::vector<Operator> &operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> joined;
    for (std::vector<Operator> family :
         {elementwiseOperators(), rowOperators(), contractionOperators(), windowOperators(), movementOperators(),
          indexingOperators(), otherOperators()}) {
      joined.insert(joined.end(), family.begin(), family.end());
    }
    return joined;
  }();
  return all;
}

std::span<const Missing> operatorsWithoutGenerator() {
  static constexpr Missing kMissing[] = {{"", ""}};
  return std::span(kMissing).first(0);
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
  constexpr int kMostNodes = 12;
  constexpr int kMostAttempts = 60;
  Sketch sketch(seed, hasRelations);
  // Small models are many: what is found in one is easy to see.
  int64_t wanted = sketch.draw.chance(0.5) ? sketch.draw.within(1, 4) : sketch.draw.within(2, kMostNodes);
  // A few families a model, so that what fuses and what patterns look for comes together.
  std::vector<const Operator *> chosen;
  for (int64_t i = sketch.draw.within(2, 8); i > 0; --i) {
    chosen.push_back(&sketch.draw.of(operators()));
  }
  int64_t made = 0;
  for (int attempt = 0; made < wanted && attempt < kMostAttempts; ++attempt) {
    const Operator &next = sketch.draw.chance(0.6) ? *sketch.draw.of(chosen) : sketch.draw.of(operators());
    made += next.make(sketch) ? 1 : 0;
  }
  if (made == 0) {
    Value x = sketch.source(DType::F32, sketch.shape(1, 3));
    sketch.node("Relu", {x.name});
  }
  return sketch.finish();
}

} // namespace tenon::random

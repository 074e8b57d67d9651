// Where the bytes of a constant come from. Relies on the weight store for those of weights; small
// constants are copied out of the module.
#include "compiler/opt/WeightSource.h"

#include "compiler/opt/Match.h"

#include <cstring>

using namespace mlir;

namespace tenon::opt {

WeightSource WeightSource::of(Value constant, tn::WeightStore &weights) {
  WeightSource source;
  RankedTensorType type = tensorType(constant);
  source.size = type.getNumElements() * elementBytes(type.getElementType());
  tn::WeightOp weight = constant.getDefiningOp<tn::WeightOp>();
  const tn::WeightEntry *entry = weight ? weights.find(weight.getId()) : nullptr;
  if (entry) {
    source.key = ("weight " + weight.getId()).str();
    source.view = entry->bytes;
    source.generate = entry->generate;
    source.isOfRank = entry->isOfRank;
    return source;
  }
  source.owned = std::make_shared<std::vector<char>>(Constants(weights).bytes(constant));
  source.view = *source.owned;
  source.key = "bytes " + std::string(source.view.begin(), source.view.end());
  return source;
}

void WeightSource::read(uint64_t begin, uint64_t count, char *out) const {
  if (view.empty() && generate) {
    generate(begin, count, out);
  } else if (begin + count <= view.size()) {
    std::memcpy(out, view.data() + begin, count);
  }
}

} // namespace tenon::opt

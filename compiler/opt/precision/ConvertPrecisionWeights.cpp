// Converts constants at once and weights by a generator that the engine's writer calls.
// Relies on graph/NarrowFloats.h for rounding.
#include "compiler/opt/precision/ConvertPrecisionWeights.h"

#include "compiler/graph/NarrowFloats.h"

#include <cmath>

using namespace mlir;

namespace tenon::opt {
namespace {

/// Bytes of generated weights that are narrowed at a time.
constexpr uint64_t kNarrowedBytes = 64 << 10;

void narrowTo(bool isHalf, const char *from, char *to, size_t count) {
  uint16_t *out = reinterpret_cast<uint16_t *>(to);
  if (isHalf) {
    tn::narrowToHalf(from, out, count);
  } else {
    tn::narrowToBFloat(from, out, count);
  }
}

/// Equal arrays have equal samples; what else has is compared in full.
std::string sampleOf(ArrayRef<char> bytes) {
  constexpr size_t kSampleBytes = 256;
  std::string sample = std::to_string(bytes.size());
  for (size_t start :
       {size_t(0), bytes.size() / 2, bytes.size() - std::min(bytes.size(), kSampleBytes)}) {
    ArrayRef<char> part = bytes.drop_front(start).take_front(kSampleBytes);
    sample.append(part.begin(), part.end());
  }
  return sample;
}

} // namespace

Value NarrowConstants::make(Operation *constant) {
  tn::ConstantOp small = dyn_cast<tn::ConstantOp>(constant);
  return small ? convertConstant(small) : convertWeight(cast<tn::WeightOp>(constant));
}

Value NarrowConstants::convertConstant(tn::ConstantOp constant) {
  DenseElementsAttr dense = cast<DenseElementsAttr>(constant.getValue());
  double largest = narrow.isF16() ? tn::kLargestHalf : tn::kLargestBFloat;
  DenseElementsAttr converted =
      cast<DenseFPElementsAttr>(dense).mapValues(narrow, [&](const APFloat &element) {
        double number = element.convertToDouble();
        APFloat value(std::isfinite(number) ? std::clamp(number, -largest, largest) : number);
        bool losesInfo = false;
        value.convert(narrow.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
        return value.bitcastToAPInt();
      });
  OpBuilder builder(constant);
  return tn::ConstantOp::create(builder, constant.getLoc(),
                                tn::withElement(constant.getType(), narrow), converted);
}

Value NarrowConstants::convertWeight(tn::WeightOp weight) {
  OpBuilder builder(weight);
  return tn::WeightOp::create(builder, weight.getLoc(), tn::withElement(weight.getType(), narrow),
                              idFor(weight.getId()));
}

std::string NarrowConstants::idFor(StringRef source) {
  std::string &id = ids[source.str()];
  if (!id.empty()) {
    return id;
  }
  const tn::WeightEntry *entry = store.find(source);
  if (entry->bytes.empty()) {
    return id = generated(source, entry->size); // made when written: there is nothing to compare
  }
  std::string sample = sampleOf(entry->bytes);
  auto [begin, end] = bySample.equal_range(sample);
  for (auto known = begin; known != end; ++known) {
    if (store.find(known->second)->bytes == entry->bytes) {
      return id = ids[known->second];
    }
  }
  bySample.emplace(std::move(sample), source.str());
  return id = generated(source, entry->size);
}

std::string NarrowConstants::generated(StringRef source, uint64_t sourceBytes) {
  bool isHalf = narrow.isF16();
  const tn::WeightEntry *entry = store.find(source);
  auto generate = [entry, isHalf](uint64_t begin, uint64_t size, char *out) {
    if (!entry->generate) {
      narrowTo(isHalf, entry->bytes.data() + 2 * begin, out, size / sizeof(uint16_t));
      return;
    }
    // By pieces that stay in the cache.
    std::vector<char> piece(2 * std::min(size, kNarrowedBytes));
    for (uint64_t at = 0; at < size; at += kNarrowedBytes) {
      uint64_t count = std::min(size - at, kNarrowedBytes);
      entry->generate(2 * (begin + at), 2 * count, piece.data());
      narrowTo(isHalf, piece.data(), out + at, count / sizeof(uint16_t));
    }
  };
  ++converted;
  bytes += static_cast<int64_t>(sourceBytes / 2);
  return store.addGenerated((source + (isHalf ? ".f16" : ".bf16")).str(), sourceBytes / 2,
                            std::move(generate), ("narrowed from " + source).str());
}

} // namespace tenon::opt

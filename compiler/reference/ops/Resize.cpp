// Evaluates resampling one dim after the other: each result index is a weighted sum of neighbours.
// Relies on ONNX's definition of coordinates, of the preferred left neighbour and of antialiasing.
#include "compiler/reference/Evaluation.h"

using namespace mlir;

namespace tenon::reference {
namespace {

/// How one index of the result is made from the data along one dim.
struct Blend {
  bool outside = false; ///< the extrapolation value is the result
  llvm::SmallVector<std::pair<int64_t, double>, 4> taps;
};

/// Resampling along one dim.
class DimResampler {
public:
  DimResampler(tn::ResizeOp op, size_t dim, int64_t inSize, int64_t outSize)
      : mode(op.getMode()), coordinates(op.getCoordinates()), nearest(op.getNearest()),
        scale(op.getScales()[dim]), cubicA(op.getCubicA().convertToDouble()),
        excludeOutside(op.getExcludeOutside()), antialias(op.getAntialias()), inSize(inSize),
        outSize(outSize) {
    llvm::ArrayRef<double> roi = op.getRoi();
    if (roi.size() == 2 * op.getScales().size()) {
      roiBegin = roi[dim];
      roiEnd = roi[roi.size() / 2 + dim];
    }
  }

  Blend blendOf(int64_t index) const {
    double x = source(double(index));
    Blend blend;
    blend.outside = coordinates == "tf_crop_and_resize" && !(x >= 0 && x <= double(inSize - 1));
    if (blend.outside) {
      return blend;
    }
    // The neighbour to the left is at least a step away, so an exact position has ratio 1.
    double left = std::ceil(x) - 1;
    double ratio = x - left;
    llvm::SmallVector<double> weights = weightsOf(ratio);
    int64_t first = truncate<int64_t>(left) - int64_t(weights.size() / 2) + 1;
    double total = 0;
    for (auto [i, weight] : llvm::enumerate(weights)) {
      int64_t at = first + int64_t(i);
      if (excludeOutside && (at < 0 || at >= inSize)) {
        continue;
      }
      total += weight;
      blend.taps.push_back({std::clamp<int64_t>(at, 0, inSize - 1), weight});
    }
    for (auto &[at, weight] : blend.taps) {
      weight = excludeOutside ? weight / total : weight;
    }
    return blend;
  }

private:
  /// The position in the data that an index of the result stands for.
  double source(double index) const {
    double length = scale * double(inSize);
    double last = double(inSize - 1);
    if (coordinates == "align_corners") {
      return length == 1 ? 0 : index * last / (length - 1);
    }
    if (coordinates == "asymmetric") {
      return index / scale;
    }
    if (coordinates == "tf_crop_and_resize") {
      double inner = length == 1 ? (roiEnd - roiBegin) * last / 2
                                 : index * (roiEnd - roiBegin) * last / (length - 1);
      return inner + roiBegin * last;
    }
    if (coordinates == "pytorch_half_pixel" && length == 1) {
      return -0.5;
    }
    double offset = 0;
    if (coordinates == "half_pixel_symmetric") {
      offset = double(inSize) / 2 * (1 - double(outSize) / length);
    }
    return offset + (index + 0.5) / scale - 0.5;
  }

  llvm::SmallVector<double> weightsOf(double ratio) const {
    if (mode == tn::ResizeMode::nearest) {
      return nearestWeights(ratio);
    }
    bool cubic = mode == tn::ResizeMode::cubic;
    double shrink = antialias ? std::min(scale, 1.0) : 1;
    double reach = cubic ? 2 : 1;
    int64_t start = truncate<int64_t>(std::floor(-reach / shrink)) + 1;
    llvm::SmallVector<double> weights;
    double total = 0;
    for (int64_t i = start; i < 2 - start; ++i) {
      double distance = std::fabs((double(i) - ratio) * shrink);
      weights.push_back(cubic ? cubicWeight(distance) : std::max(1 - distance, 0.0));
      total += weights.back();
    }
    for (double &weight : weights) {
      weight = antialias ? weight / total : weight;
    }
    return weights;
  }

  llvm::SmallVector<double> nearestWeights(double ratio) const {
    if (ratio == 1) {
      return {0, 1};
    }
    bool right = nearest == "ceil" || (nearest == "round_prefer_floor" && ratio > 0.5) ||
                 (nearest == "round_prefer_ceil" && ratio >= 0.5);
    return {right ? 0.0 : 1.0, right ? 1.0 : 0.0};
  }

  double cubicWeight(double x) const {
    if (x <= 1) {
      return ((cubicA + 2) * x - (cubicA + 3)) * x * x + 1;
    }
    return x < 2 ? ((cubicA * x - 5 * cubicA) * x + 8 * cubicA) * x - 4 * cubicA : 0;
  }

  tn::ResizeMode mode;
  llvm::StringRef coordinates;
  llvm::StringRef nearest;
  double scale;
  double cubicA;
  bool excludeOutside;
  bool antialias;
  int64_t inSize;
  int64_t outSize;
  double roiBegin = 0;
  double roiEnd = 1;
};

/// Resamples `dim` of `values`, which have dims `sizes`; both are replaced.
void resampleDim(std::vector<double> &values, Sizes &sizes, size_t dim, int64_t outSize,
                 const DimResampler &resampler, double extrapolation) {
  int64_t inner = productOf(llvm::ArrayRef<int64_t>(sizes).drop_front(dim + 1));
  int64_t outer = productOf(llvm::ArrayRef<int64_t>(sizes).take_front(dim));
  int64_t inSize = sizes[dim];
  std::vector<double> result(outer * outSize * inner);
  for (int64_t j = 0; j < outSize; ++j) {
    Blend blend = resampler.blendOf(j);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        double sum = blend.outside ? extrapolation : 0;
        for (auto [at, weight] : blend.taps) {
          // A weight of zero also takes no NaN or infinity along.
          sum += weight == 0 ? 0 : weight * values[(o * inSize + at) * inner + i];
        }
        result[(o * outSize + j) * inner + i] = sum;
      }
    }
  }
  sizes[dim] = outSize;
  values = std::move(result);
}

Status evaluateResize(Evaluation &evaluation) {
  tn::ResizeOp op = cast<tn::ResizeOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  if (x.count() == 0 && y.count() != 0) {
    return badOperand("an empty tensor cannot be resampled");
  }
  TENON_ASSIGN(Tensor wide, convert(x, DType::F64));
  std::vector<double> values(wide.as<double>(), wide.as<double>() + wide.count());
  Sizes sizes(x.dims());
  double extrapolation = op.getExtrapolation().convertToDouble();
  for (int64_t dim = 0; dim < x.rank() && y.count() != 0; ++dim) {
    int64_t outSize = y.dims()[dim];
    bool stays = outSize == x.dims()[dim] && op.getScales()[dim] == 1 &&
                 op.getCoordinates() != "tf_crop_and_resize";
    if (!stays) {
      resampleDim(values, sizes, dim, outSize, DimResampler(op, dim, x.dims()[dim], outSize),
                  extrapolation);
    }
  }
  TENON_TRY(visitElement(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < y.count(); ++i) {
      // Weighted sums of integers round to the nearest.
      y.as<T>()[i] = narrow<T>(kIsFloat<T> ? values[i] : std::nearbyint(values[i]));
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

constexpr OpRow kResizeOpRows[] = {{"tn.resize", evaluateResize}};

} // namespace

llvm::ArrayRef<OpRow> resizeOps() { return kResizeOpRows; }

} // namespace tenon::reference

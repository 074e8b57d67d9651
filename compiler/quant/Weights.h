// Weights in 8 bits: signed and symmetric, a scale for each output channel.
#pragma once

#include "compiler/frontend/onnx/wire/TensorData.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon::quant {

/// A constant of FP32 in memory.
struct Floats {
  std::vector<int64_t> dims;
  std::vector<float> values;
};
/// An error for seeded weights, which have no bytes, and for values that are not finite.
Result<Floats> loadFloats(const onnx::Tensor &tensor, onnx::ExternalFiles &files);

/// Of rank 2.
Floats transposed(const Floats &weight);

struct QuantizedWeight {
  std::vector<int64_t> dims;
  std::vector<int8_t> values;
  std::vector<float> scales; ///< one for each index along the axis
  double error = 0;          ///< mean square of the difference over the mean square of the weights
};

/// The largest weight; -128 is left out, so that signs are symmetric.
inline constexpr int kMaxWeight = 127;
/// The largest for which x86 without VNNI does not saturate where it adds two products of u8 and s8
/// in 16 bits: 2 * 255 * 64 fits.
inline constexpr int kMaxReduced = 64;

/// Smaller scales would be denormal where they are multiplied: some runtimes take these as 0.
inline constexpr float kMinScale = 1e-30F;

/// The scale of each channel is the one of the least squared error, but not below its element of
/// `least`, if there are any.
QuantizedWeight quantizeWeight(const Floats &weight, int64_t axis, int most = kMaxWeight,
                               std::span<const float> least = {});

/// What 8 bits with a scale for each index of `axis` lose of the weights of each input, as squares
/// relative to these weights, on average over inputs: an outlier takes the levels of the others,
/// which the error of all weights does not show.
double lossOfInputs(const Floats &weight, int64_t axis);

/// Scale and shift of an inference BatchNormalization as a convolution's weights take them in.
/// `bias` gets an element for each output channel. Axis 0 of the weights counts those.
void foldNorm(Floats &weight, std::vector<float> &bias, std::span<const float> scale,
              std::span<const float> shift, std::span<const float> mean,
              std::span<const float> variance, double epsilon);

} // namespace tenon::quant

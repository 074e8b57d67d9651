// Turns a picture (PNG, JPEG, PPM or PGM) into an input tensor: decode, resize, crop, scale to [0,
// 1], subtract the mean, divide by the deviation. What is to be done is never guessed.

#pragma once

#include "runtime/tensors/Tensor.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon {

enum class ImageLayout { Nchw, Nhwc };

/// What a model wants done to a picture; what is missing here must be given by flags.
struct Preprocessing {
  std::vector<double> mean; ///< one per channel or one for all, in units of [0, 1]
  std::vector<double> deviation;
  std::optional<ImageLayout> layout;
  bool resize = false; ///< stretch to the input's size instead of refusing another size
  /// Before anything else: one number for the length of the shorter side, or height and width to
  /// stretch to. Empty to leave pictures as they are.
  std::vector<int64_t> size = {};
  /// Then the middle of the picture: height and width, or one number for both. Empty for all of it.
  std::vector<int64_t> crop = {};
};

/// Reads the JSON that a model carries: {"mean":[…],"std":[…],"layout":"nchw","resize":true,
/// "size":256,"crop":224}.
/// Text that is not such JSON gives an empty Preprocessing.
Preprocessing parsePreprocessing(const std::string &json);

/// One picture as a tensor of rank 4. `dims` are those of the input, negative where they are free:
/// then the picture's own size is taken. The dtype is a floating one.
Result<Tensor> loadImage(const std::string &path, const Preprocessing &preprocessing, DType dtype,
                         const std::vector<int64_t> &dims);
/// What loadImage would say of the picture and its size, without unpacking it.
Status checkImage(const std::string &path, const Preprocessing &preprocessing, DType dtype,
                  const std::vector<int64_t> &dims);

} // namespace tenon

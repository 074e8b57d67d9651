// Implements pictures as inputs over stb; this file holds the only copy of its decoder and resizer.

#include "runtime/tensors/Image.h"

#include "runtime/tensors/WholePicture.h"
#include "support/files/MappedFile.h"
#include "support/json/Json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string_view>

#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNM
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 16384
// What a file leaves undefined is zeros, not what memory held before.
#define STBI_MALLOC(size) std::calloc(1, size)
#define STBI_REALLOC(memory, size) std::realloc(memory, size)
#define STBI_FREE(memory) std::free(memory)
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb/stb_image_resize.h>

namespace tenon {
namespace {

struct Picture {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<unsigned char> pixels; ///< rows of pixels of channels
};

Status badPicture(const std::string &path, std::string_view why) {
  return Status::error(ErrorId::BadTensorFile,
                       fmt::format("{}: the picture cannot be decoded: {}", path, why),
                       "pass a PNG, JPEG, PPM or PGM file");
}

/// What a file of this size may unpack to: photographs take far less.
bool isCredible(size_t fileBytes, int width, int height, int stored) {
  constexpr int64_t kFree = int64_t(32) << 20;
  constexpr int64_t kMaxExpansion = 16;
  return int64_t(width) * height * stored <=
         kFree + kMaxExpansion * static_cast<int64_t>(fileBytes);
}

struct Size {
  int64_t height = 0;
  int64_t width = 0;
};

/// The size of a picture that is whole, before anything is unpacked.
Result<Size> sizeOf(const std::string &path, Bytes bytes) {
  if (!isWholePicture(bytes)) {
    return badPicture(path, "it is not a PNG, JPEG, PPM or PGM file, or is damaged or truncated");
  }
  int width = 0;
  int height = 0;
  int stored = 0;
  const stbi_uc *start = reinterpret_cast<const stbi_uc *>(bytes.data());
  int size = static_cast<int>(std::min<size_t>(bytes.size(), INT32_MAX));
  if (!stbi_info_from_memory(start, size, &width, &height, &stored)) {
    return badPicture(path, stbi_failure_reason());
  }
  if (!isCredible(bytes.size(), width, height, stored)) {
    return badPicture(path, fmt::format("{}x{} pixels in {} bytes", width, height, bytes.size()));
  }
  return Size{height, width};
}

Result<Picture> unpack(const std::string &path, Bytes bytes, int64_t channels) {
  int width = 0;
  int height = 0;
  int stored = 0;
  const stbi_uc *start = reinterpret_cast<const stbi_uc *>(bytes.data());
  int size = static_cast<int>(std::min<size_t>(bytes.size(), INT32_MAX));
  std::unique_ptr<stbi_uc, void (*)(void *)> pixels(
      stbi_load_from_memory(start, size, &width, &height, &stored, static_cast<int>(channels)),
      stbi_image_free);
  if (!pixels) {
    return badPicture(path, stbi_failure_reason());
  }
  Picture picture{height, width, channels, {}};
  picture.pixels.assign(pixels.get(), pixels.get() + int64_t(height) * width * channels);
  return picture;
}

Status needs(const std::string &path, std::string_view what) {
  return Status::error(ErrorId::ImageNeedsPreprocessing, fmt::format("{}: {}", path, what),
                       "give --mean, --std and --layout (and --resize for pictures of another "
                       "size), as in training");
}

/// The value for a channel of a list with one for each channel or one for all.
double channelValue(const std::vector<double> &values, int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
}

Status checkComplete(const std::string &path, const Preprocessing &preprocessing,
                     int64_t channels) {
  if (preprocessing.mean.empty() || preprocessing.deviation.empty() || !preprocessing.layout) {
    return needs(path, "the model does not specify the preprocessing of pictures");
  }
  for (const std::vector<double> *values : {&preprocessing.mean, &preprocessing.deviation}) {
    if (values->size() != 1 && static_cast<int64_t>(values->size()) != channels) {
      return needs(path, fmt::format("mean and std must have 1 or {} values", channels));
    }
  }
  for (double deviation : preprocessing.deviation) {
    if (!(deviation > 0)) {
      return needs(path, "std must be positive");
    }
  }
  return Status::ok();
}

Status fitSize(const std::string &path, int64_t height, int64_t width, Picture &picture) {
  if (picture.height == height && picture.width == width) {
    return Status::ok();
  }
  std::vector<unsigned char> resized(static_cast<size_t>(height * width * picture.channels));
  int done = stbir_resize_uint8_generic(
      picture.pixels.data(), static_cast<int>(picture.width), static_cast<int>(picture.height), 0,
      resized.data(), static_cast<int>(width), static_cast<int>(height), 0,
      static_cast<int>(picture.channels), STBIR_ALPHA_CHANNEL_NONE, 0, STBIR_EDGE_CLAMP,
      STBIR_FILTER_TRIANGLE, STBIR_COLORSPACE_LINEAR, nullptr);
  if (!done) {
    return Status::error(ErrorId::OutOfMemory, fmt::format("{}: resizing failed", path));
  }
  picture = {height, width, picture.channels, std::move(resized)};
  return Status::ok();
}

/// Of a picture of `size` after `size` and `crop` of the preprocessing.
Size sizeBeforeCrop(const Preprocessing &preprocessing, Size size) {
  if (preprocessing.size.empty()) {
    return size;
  }
  if (preprocessing.size.size() > 1) {
    return {preprocessing.size[0], preprocessing.size[1]};
  }
  int64_t shorter = preprocessing.size[0];
  bool isWide = size.width > size.height;
  int64_t longer = isWide ? shorter * size.width / size.height : shorter * size.height / size.width;
  return isWide ? Size{shorter, longer} : Size{longer, shorter};
}

Size cropOf(const Preprocessing &preprocessing, Size size) {
  return preprocessing.crop.empty() ? size
                                    : Size{preprocessing.crop.front(), preprocessing.crop.back()};
}

/// The middle of a picture; what is left over is halved, and halves are rounded to even.
void cropMiddle(Size wanted, Picture &picture) {
  int64_t top = std::lrint(static_cast<double>(picture.height - wanted.height) / 2);
  int64_t left = std::lrint(static_cast<double>(picture.width - wanted.width) / 2);
  std::vector<unsigned char> kept;
  for (int64_t row = 0; row < wanted.height; ++row) {
    std::vector<unsigned char>::iterator start =
        picture.pixels.begin() + ((top + row) * picture.width + left) * picture.channels;
    kept.insert(kept.end(), start, start + wanted.width * picture.channels);
  }
  picture = {wanted.height, wanted.width, picture.channels, std::move(kept)};
}

std::vector<double> numbersOf(const Json &value) {
  std::vector<double> numbers;
  if (value.is_number()) {
    numbers.push_back(value.get<double>());
  }
  if (value.is_array()) {
    for (const Json &item : value) {
      if (item.is_number()) {
        numbers.push_back(item.get<double>());
      }
    }
  }
  return numbers;
}

} // namespace

Preprocessing parsePreprocessing(const std::string &json) {
  Preprocessing result;
  Json value = parseJson(json);
  if (!value.is_object()) {
    return result;
  }
  result.mean = numbersOf(value.value("mean", Json()));
  result.deviation = numbersOf(value.value("std", Json()));
  Json layout = value.value("layout", Json());
  if (layout == "nchw" || layout == "nhwc") {
    result.layout = layout == "nchw" ? ImageLayout::Nchw : ImageLayout::Nhwc;
  }
  result.resize = value.value("resize", Json()) == true;
  for (double number : numbersOf(value.value("size", Json()))) {
    result.size.push_back(static_cast<int64_t>(number));
  }
  for (double number : numbersOf(value.value("crop", Json()))) {
    result.crop.push_back(static_cast<int64_t>(number));
  }
  return result;
}

namespace {

/// What a picture becomes.
struct Steps {
  bool isNchw = true;
  int64_t channels = 0;
  Size resized;
  Size cropped;
  Size final;
};

Result<Steps> planSteps(const std::string &path, Bytes bytes, const Preprocessing &preprocessing,
                        DType dtype, const std::vector<int64_t> &dims) {
  if (dims.size() != 4 || !isFloating(dtype)) {
    return Status::error(
        ErrorId::BadArgument,
        fmt::format("{}: a picture fits only inputs of 4 floating-point dimensions", path));
  }
  Steps steps;
  steps.isNchw = preprocessing.layout != ImageLayout::Nhwc;
  steps.channels = dims[steps.isNchw ? 1 : 3];
  TENON_TRY(checkComplete(path, preprocessing, steps.channels));
  if (steps.channels != 1 && steps.channels != 3) {
    return needs(path,
                 fmt::format("in layout {} the input has {} channels, but a picture has 1 or 3",
                             steps.isNchw ? "nchw" : "nhwc", steps.channels));
  }
  TENON_ASSIGN(Size own, sizeOf(path, bytes));
  steps.resized = sizeBeforeCrop(preprocessing, own);
  steps.cropped = cropOf(preprocessing, steps.resized);
  for (int64_t side :
       {steps.resized.height, steps.resized.width, steps.cropped.height, steps.cropped.width}) {
    if (side < 1 || side > STBI_MAX_DIMENSIONS) {
      return needs(path, fmt::format("size and crop make a picture {} pixels long", side));
    }
  }
  if (steps.cropped.height > steps.resized.height || steps.cropped.width > steps.resized.width) {
    return needs(path, fmt::format("the crop of {}x{} is larger than the picture of {}x{}",
                                   steps.cropped.width, steps.cropped.height, steps.resized.width,
                                   steps.resized.height));
  }
  int64_t height = dims[steps.isNchw ? 2 : 1];
  int64_t width = dims[steps.isNchw ? 3 : 2];
  steps.final = {height < 0 ? steps.cropped.height : height,
                 width < 0 ? steps.cropped.width : width};
  bool fits =
      steps.final.height == steps.cropped.height && steps.final.width == steps.cropped.width;
  if (!fits && !preprocessing.resize) {
    return needs(path, fmt::format("the picture has {}x{} pixels, but the input has {}x{}",
                                   steps.cropped.width, steps.cropped.height, width, height));
  }
  return steps;
}

} // namespace

Status checkImage(const std::string &path, const Preprocessing &preprocessing, DType dtype,
                  const std::vector<int64_t> &dims) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  return planSteps(path, file.bytes(), preprocessing, dtype, dims).takeStatus();
}

Result<Tensor> loadImage(const std::string &path, const Preprocessing &preprocessing, DType dtype,
                         const std::vector<int64_t> &dims) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  TENON_ASSIGN(Steps steps, planSteps(path, file.bytes(), preprocessing, dtype, dims));
  int64_t channels = steps.channels, height = steps.final.height, width = steps.final.width;
  TENON_ASSIGN(Picture picture, unpack(path, file.bytes(), channels));
  TENON_TRY(fitSize(path, steps.resized.height, steps.resized.width, picture));
  cropMiddle(steps.cropped, picture);
  TENON_TRY(fitSize(path, height, width, picture));

  std::vector<int64_t> shape = {1, height, width, channels};
  if (steps.isNchw) {
    shape = {1, channels, height, width};
  }
  TENON_ASSIGN(Tensor tensor, Tensor::create("", dtype, shape));
  int64_t area = height * width;
  for (int64_t pixel = 0; pixel < area; ++pixel) {
    for (int64_t channel = 0; channel < channels; ++channel) {
      double value = picture.pixels[static_cast<size_t>(pixel * channels + channel)] / 255.0;
      value = (value - channelValue(preprocessing.mean, channel)) /
              channelValue(preprocessing.deviation, channel);
      setElement(tensor, steps.isNchw ? channel * area + pixel : pixel * channels + channel, value);
    }
  }
  return tensor;
}

} // namespace tenon

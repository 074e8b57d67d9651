// Implements pictures as inputs over stb; this file holds the only copy of its decoder and resizer.

#include "runtime/tensors/Image.h"

#include "support/files/MappedFile.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
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
                       fmt::format("{}: not a picture that can be read: {}", path, why),
                       "pass a PNG or JPEG file");
}

uint32_t bigEndian(Bytes bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < sizeof(value); ++i) {
    value = value << 8 | static_cast<uint32_t>(bytes[at + i]);
  }
  return value;
}

bool startsWith(Bytes bytes, std::string_view start) {
  return bytes.size() >= start.size() && std::memcmp(bytes.data(), start.data(), start.size()) == 0;
}

/// Whether every chunk has its checksum and the last one is there.
bool isWholePng(Bytes bytes) {
  constexpr size_t kSignature = 8;
  constexpr size_t kAround = 12; // length and name before the content, checksum behind it
  for (Bytes rest = bytes.subspan(kSignature); rest.size() >= kAround;) {
    uint32_t length = bigEndian(rest, 0);
    if (length > rest.size() - kAround) {
      return false;
    }
    const Bytef *named = reinterpret_cast<const Bytef *>(rest.data() + 4);
    if (crc32_z(0, named, size_t(length) + 4) != bigEndian(rest, size_t(length) + 8)) {
      return false;
    }
    if (std::memcmp(named, "IEND", 4) == 0) {
      return true;
    }
    rest = rest.subspan(length + kAround);
  }
  return false;
}

/// The Huffman tables of a JPEG that segments have defined so far: a bit for each class and number.
using HuffmanTables = unsigned;
constexpr HuffmanTables tableBit(bool isAc, unsigned number) {
  return 1u << (4 * unsigned(isAc) + (number & 3));
}

/// Whether the Huffman tables of a JPEG segment name no more symbols than a byte has values, for
/// which the decoder has room; adds them to `defined`.
bool areSoundTables(Bytes segment, HuffmanTables &defined) {
  constexpr size_t kLengths = 16;
  constexpr size_t kMostSymbols = 256;
  while (segment.size() > kLengths) {
    size_t symbols = 0;
    for (std::byte count : segment.subspan(1, kLengths)) {
      symbols += static_cast<size_t>(count);
    }
    if (symbols > kMostSymbols || symbols > segment.size() - 1 - kLengths) {
      return false;
    }
    unsigned place = static_cast<unsigned>(segment[0]);
    defined |= tableBit(place >> 4 != 0, place);
    segment = segment.subspan(1 + kLengths + symbols);
  }
  return segment.empty();
}

/// Whether a scan of a JPEG, by its header, uses none but defined tables: DC tables where it begins
/// with coefficient 0 and refines none, AC tables where it has others.
bool hasItsTables(Bytes header, HuffmanTables defined) {
  auto at = [&](size_t i) { return static_cast<unsigned>(header[i]); };
  size_t components = header.empty() ? 0 : at(0);
  if (header.size() < 4 + 2 * components) {
    return false;
  }
  unsigned first = at(1 + 2 * components), last = at(2 + 2 * components);
  bool isRefined = at(3 + 2 * components) >> 4 != 0;
  HuffmanTables used = 0;
  for (size_t i = 0; i < components; ++i) {
    unsigned tables = at(2 + 2 * i);
    used |= first == 0 && !isRefined ? tableBit(false, tables >> 4) : 0;
    used |= last > 0 ? tableBit(true, tables) : 0;
  }
  return (used & ~defined) == 0;
}

/// Whether segment follows segment to the end of the picture, and scans find their tables.
bool isWholeJpeg(Bytes bytes) {
  HuffmanTables defined = 0;
  constexpr unsigned kTables = 0xc4, kRestart = 0xd0, kEnd = 0xd9, kScan = 0xda, kMarker = 0xff;
  auto at = [&](size_t i) { return static_cast<unsigned>(bytes[i]); };
  auto isMarker = [&](size_t i) {
    return at(i) == kMarker && at(i + 1) != 0 && (at(i + 1) & ~7u) != kRestart;
  };
  for (size_t i = 2; i + 1 < bytes.size() && isMarker(i);) {
    unsigned kind = at(i + 1);
    if (kind == kEnd) {
      return true;
    }
    if (kind == kMarker) {
      ++i; // padding
      continue;
    }
    size_t length = i + 3 < bytes.size() ? at(i + 2) << 8 | at(i + 3) : 0;
    if (length < 2 || length > bytes.size() - i - 2 ||
        (kind == kTables && !areSoundTables(bytes.subspan(i + 4, length - 2), defined)) ||
        (kind == kScan && !hasItsTables(bytes.subspan(i + 4, length - 2), defined))) {
      return false;
    }
    i += 2 + length;
    while (kind == kScan && i + 1 < bytes.size() && !isMarker(i)) {
      ++i; // compressed pixels
    }
  }
  return false;
}

/// The decoder checks neither a PNG's checksums nor that a JPEG ends: damage would be another
/// picture.
bool isWhole(Bytes bytes) {
  constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";
  constexpr std::string_view kJpeg = "\xff\xd8";
  return startsWith(bytes, kPng) ? isWholePng(bytes)
                                 : startsWith(bytes, kJpeg) && isWholeJpeg(bytes);
}

/// What a file of this size may unpack to: photographs take far less.
bool isCredible(size_t fileBytes, int width, int height, int stored) {
  constexpr int64_t kFree = int64_t(32) << 20;
  constexpr int64_t kMostExpansion = 16;
  return int64_t(width) * height * stored <=
         kFree + kMostExpansion * static_cast<int64_t>(fileBytes);
}

/// `wanted` is asked with height and width before anything is unpacked.
Result<Picture> decode(const std::string &path, Bytes bytes, int64_t channels,
                       const std::function<Status(int64_t height, int64_t width)> &wanted) {
  if (!isWhole(bytes)) {
    return badPicture(path, "it is no PNG or JPEG file, or damaged or cut off");
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
  TENON_TRY(wanted(height, width));
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
                       "size), as the model was "
                       "trained with");
}

/// The value for a channel of a list with one for each channel or one for all.
double channelValue(const std::vector<double> &values, int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
}

Status checkComplete(const std::string &path, const Preprocessing &preprocessing,
                     int64_t channels) {
  if (preprocessing.mean.empty() || preprocessing.deviation.empty() || !preprocessing.layout) {
    return needs(path, "the model does not say how a picture becomes its input");
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

using Json = nlohmann::json;

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
  Json value = Json::parse(json, nullptr, false);
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
  return result;
}

Result<Tensor> loadImage(const std::string &path, const Preprocessing &preprocessing, DType dtype,
                         const std::vector<int64_t> &dims) {
  if (dims.size() != 4 || !isFloating(dtype)) {
    return Status::error(
        ErrorId::BadArgument,
        fmt::format("{}: a picture fits an input of 4 floating-point dimensions only", path));
  }
  bool isNchw = preprocessing.layout != ImageLayout::Nhwc;
  int64_t channels = dims[isNchw ? 1 : 3];
  TENON_TRY(checkComplete(path, preprocessing, channels));
  if (channels != 1 && channels != 3) {
    return needs(path, fmt::format("in layout {} the input has {} channels, a picture 1 or 3",
                                   isNchw ? "nchw" : "nhwc", channels));
  }
  int64_t height = dims[isNchw ? 2 : 1];
  int64_t width = dims[isNchw ? 3 : 2];
  auto takeSize = [&](int64_t pictureHeight, int64_t pictureWidth) {
    height = height < 0 ? pictureHeight : height;
    width = width < 0 ? pictureWidth : width;
    bool fits = preprocessing.resize || (height == pictureHeight && width == pictureWidth);
    return fits ? Status::ok()
                : needs(path, fmt::format("the picture has {}x{} pixels, the input {}x{}",
                                          pictureWidth, pictureHeight, width, height));
  };
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  TENON_ASSIGN(Picture picture, decode(path, file.bytes(), channels, takeSize));
  TENON_TRY(fitSize(path, height, width, picture));

  std::vector<int64_t> shape = {1, height, width, channels};
  if (isNchw) {
    shape = {1, channels, height, width};
  }
  TENON_ASSIGN(Tensor tensor, Tensor::create("", dtype, shape));
  int64_t area = height * width;
  for (int64_t pixel = 0; pixel < area; ++pixel) {
    for (int64_t channel = 0; channel < channels; ++channel) {
      double value = picture.pixels[static_cast<size_t>(pixel * channels + channel)] / 255.0;
      value = (value - channelValue(preprocessing.mean, channel)) /
              channelValue(preprocessing.deviation, channel);
      setElement(tensor, isNchw ? channel * area + pixel : pixel * channels + channel, value);
    }
  }
  return tensor;
}

} // namespace tenon

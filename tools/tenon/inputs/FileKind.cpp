// Implements the table of signatures and the refusals.

#include "tools/tenon/inputs/FileKind.h"

#include "support/files/MappedFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <vector>

namespace tenon::tool {
namespace {

using namespace std::string_view_literals;

struct Signature {
  size_t offset;
  std::string_view bytes;
  FileContent content;
};

/// The first that fits counts.
constexpr Signature kSignatures[] = {
    {0, "\x89TENON\r\n"sv, {FileKind::Engine, "a Tenon engine"}},
    {0, "\x93NUMPY"sv, {FileKind::Npy, "an npy file"}},
    {0, "\x89PNG\r\n\x1a\n"sv, {FileKind::Picture, "a PNG picture"}},
    {0, "\xff\xd8\xff"sv, {FileKind::Picture, "a JPEG picture"}},
    {0, "P5\n"sv, {FileKind::Picture, "a PGM picture"}},
    {0, "P6\n"sv, {FileKind::Picture, "a PPM picture"}},
    {0, "\x1f\x8b"sv, {FileKind::Other, "a gzip archive"}},
    {0, "\x28\xb5\x2f\xfd"sv, {FileKind::Other, "a zstd archive"}},
    {0, "BZh"sv, {FileKind::Other, "a bzip2 archive"}},
    {0,
     "\xfd"
     "7zXZ"sv,
     {FileKind::Other, "an xz archive"}},
    {0, "7z\xbc\xaf"sv, {FileKind::Other, "a 7z archive"}},
    {257, "ustar"sv, {FileKind::Other, "a tar archive"}},
    {0,
     "\x7f"
     "ELF"sv,
     {FileKind::Other, "a program or library (ELF)"}},
    {0, "\x89HDF\r\n\x1a\n"sv, {FileKind::Other, "an HDF5 file, as Keras writes"}},
    {4, "TFL3"sv, {FileKind::Model, "a TensorFlow Lite model"}},
    {0, "GGUF"sv, {FileKind::Model, "a GGUF model"}},
    {0, "%PDF"sv, {FileKind::Other, "a PDF document"}},
    {0, "GIF8"sv, {FileKind::Other, "a GIF picture"}},
    {0, "RIFF"sv, {FileKind::Other, "a WebP picture, sound or video (RIFF)"}},
    {0, "\x80\x02"sv, {FileKind::Other, "a Python pickle, as PyTorch writes"}},
    {0, "\x80\x04\x95"sv, {FileKind::Other, "a Python pickle"}},
    {0, "\x80\x05\x95"sv, {FileKind::Other, "a Python pickle"}},
    {0,
     "version https://git-lfs"sv,
     {FileKind::Other, "a Git LFS pointer ('git lfs pull' downloads the file)"}},
    {0, "<!DOCTYPE html"sv, {FileKind::Other, "a web page, perhaps of a failed download"}},
    {0, "<html"sv, {FileKind::Other, "a web page, perhaps of a failed download"}},
};

constexpr std::string_view kZip = "PK\x03\x04"sv;
constexpr std::string_view kEmptyZip = "PK\x05\x06"sv;

FileContent contentOfZip(std::string_view text) {
  // An exported program begins with NAME/data/... or NAME/models/..., a pickled model with
  // NAME/data.pkl or NAME/version.
  bool isProgram = false;
  for (std::string_view folder :
       {"/data/weights/"sv, "/data/constants/"sv, "/models/"sv, "/archive_format"sv}) {
    isProgram |= text.find(folder) != text.npos;
  }
  bool isTorch =
      text.find("/data.pkl"sv) != text.npos || text.find("/.format_version"sv) != text.npos;
  return isProgram ? FileContent{FileKind::Model, "a program from torch.export"}
         : isTorch ? FileContent{FileKind::Other,
                                 "a pickled PyTorch file (torch.export.save writes a model)"}
                   : FileContent{FileKind::Npz, "a zip archive, as npz files are"};
}

/// No control characters; letters beyond ASCII may follow.
bool isText(std::string_view text) {
  bool beginsAscii = static_cast<unsigned char>(text.front()) < 0x80;
  return beginsAscii && std::ranges::all_of(text, [](unsigned char letter) {
           return letter >= ' ' || letter == '\n' || letter == '\r' || letter == '\t' ||
                  letter == '\f';
         });
}

bool isSafetensors(std::string_view text) {
  constexpr size_t kLength = 8;
  uint64_t header = 0;
  if (text.size() < kLength + 2) {
    return false;
  }
  std::memcpy(&header, text.data(), kLength);
  return text.substr(kLength).starts_with("{\"") && header < (uint64_t(1) << 32);
}

/// Whether the first field is one of ModelProto, in its encoding.
bool beginsLikeModel(std::string_view text) {
  constexpr unsigned kVarint = 0;
  constexpr unsigned kBytes = 2;
  unsigned char tag = static_cast<unsigned char>(text.front());
  unsigned field = tag >> 3;
  bool isNumber = field == 1 || field == 5;
  return field >= 1 && field <= 8 && (tag & 7) == (isNumber ? kVarint : kBytes);
}

Status refuse(const std::string &path, ErrorId error, std::string_view wanted,
              std::string_view what, std::string_view hint) {
  std::string is = what.empty() ? "" : fmt::format(": it is {}", what);
  return Status::error(error, fmt::format("'{}' is not {}{}", path, wanted, is), hint);
}

} // namespace

FileContent contentOf(Bytes beginning) {
  std::string_view text(reinterpret_cast<const char *>(beginning.data()), beginning.size());
  if (text.empty()) {
    return {FileKind::Empty, "empty"};
  }
  for (const Signature &signature : kSignatures) {
    if (text.size() > signature.offset &&
        text.substr(signature.offset).starts_with(signature.bytes)) {
      return signature.content;
    }
  }
  if (text.starts_with(kZip) || text.starts_with(kEmptyZip)) {
    return contentOfZip(text);
  }
  if (isSafetensors(text)) {
    return {FileKind::Other, "a safetensors file (its folder, with config.json, is the model)"};
  }
  if (isText(text)) {
    // A reproducer begins with comments, as long as the fault that it tells of.
    bool isDump = text.find("module attributes"sv) != text.npos || text.starts_with("#loc"sv) ||
                  text.starts_with("#map"sv) || text.starts_with("// "sv);
    return isDump ? FileContent{FileKind::PhaseDump, "MLIR text"}
                  : FileContent{FileKind::Other, "text"};
  }
  return beginsLikeModel(text) ? FileContent{FileKind::Model, "an ONNX model"} : FileContent();
}

Result<FileContent> contentOf(const std::string &path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    bool isModel = std::filesystem::exists(path + "/config.json", error);
    return isModel ? FileContent{FileKind::Model, "a folder of Hugging Face"}
                   : FileContent{FileKind::Other, "a folder without a config.json"};
  }
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  std::vector<std::byte> beginning(std::min<uint64_t>(file.size(), kSniffBytes));
  TENON_TRY(file.read(0, beginning));
  return contentOf(beginning);
}

Result<bool> isModel(const std::string &path, Takes takes) {
  TENON_ASSIGN(FileContent content, contentOf(path));
  bool isNamedModel = path.ends_with(".onnx") || path.ends_with(".mlir") ||
                      path.ends_with(".pt2") || path.ends_with(".tflite");
  FileKind kind = content.kind;
  if (kind == FileKind::Npz && path.ends_with(".pt2")) {
    kind = FileKind::Model; // what is left of a damaged program
  }
  if (kind == FileKind::Unknown || kind == FileKind::Empty) {
    // The reader of what the name promises says best how the file is damaged.
    bool asModel = takes == Takes::Model || (takes != Takes::Engine && isNamedModel);
    kind = asModel ? FileKind::Model : FileKind::Engine;
  }
  bool isDump = kind == FileKind::PhaseDump && path.ends_with(".mlir");
  bool isAnyModel = kind == FileKind::Model || (isDump && takes != Takes::OnnxOrEngine);
  if (takes != Takes::Engine && isAnyModel) {
    return true;
  }
  if (takes != Takes::Model && kind == FileKind::Engine) {
    return false;
  }
  if (takes == Takes::Engine) {
    return refuse(path, ErrorId::EngineBadMagic, "a Tenon engine", content.what,
                  isAnyModel ? "compile it to an engine with tenon compile"
                             : "tenon compile creates engines");
  }
  if (takes == Takes::Model || isNamedModel) {
    return refuse(
        path, ErrorId::OnnxNotAModel, "a model (ONNX, .pt2, .tflite)", content.what,
        kind == FileKind::Engine
            ? "give the model that the engine was compiled from"
            : "give a file written by torch.export.save, torch.onnx.export or another exporter");
  }
  return refuse(path, ErrorId::EngineBadMagic, "a Tenon engine or a model (ONNX, .pt2, .tflite)",
                content.what, "give an engine from tenon compile, or a model");
}

} // namespace tenon::tool

// What a file is, by its first bytes: its name is only asked where the bytes say nothing, as in a
// damaged file. It relies on the signatures of the formats that people mix up with models.

#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::tool {

enum class FileKind : uint8_t {
  Unknown,
  Empty,
  Model,
  PhaseDump,
  Engine,
  Npz,
  Npy,
  Picture,
  Other
};

struct FileContent {
  FileKind kind = FileKind::Unknown;
  std::string_view what; ///< "a PNG picture"
};

/// By the beginning of a file, of at least kSniffBytes where it is as long.
inline constexpr size_t kSniffBytes = 4096;
FileContent contentOf(Bytes beginning);
Result<FileContent> contentOf(const std::string &path);

/// What a verb takes as its first argument.
enum class Takes : uint8_t {
  Model, ///< ONNX or a phase that --dump-phases wrote
  Engine,
  Either,
  OnnxOrEngine ///< no dumped phase
};

/// Whether `path` is a model rather than an engine; an error that says what it is where it is
/// neither, or the one that the verb does not take.
Result<bool> isModel(const std::string &path, Takes takes);

} // namespace tenon::tool

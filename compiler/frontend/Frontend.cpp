// Chooses a frontend.
#include "compiler/frontend/Frontend.h"

#include "compiler/frontend/language/Language.h"
#include "compiler/frontend/onnx/ExtraOutputs.h"
#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/frontend/pt2/Pt2.h"
#include "compiler/frontend/pt2/wire/ArchiveReader.h"
#include "compiler/frontend/tflite/Tflite.h"
#include "compiler/frontend/tflite/wire/ModelReader.h"
#include "compiler/frontend/weights/gguf/Gguf.h"
#include "support/files/MappedFile.h"

#include <algorithm>
#include <array>
#include <filesystem>

namespace tenon::frontend {

Format formatOf(Bytes beginning) {
  return pt2::looksLikeArchive(beginning)    ? Format::Pt2
         : gguf::looksLikeGguf(beginning)    ? Format::Gguf
         : tflite::looksLikeModel(beginning) ? Format::Tflite
                                             : Format::Onnx;
}

Result<Format> formatOf(const std::string &path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Format::Folder;
  }
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  std::array<std::byte, tflite::kIdentifierEnd> beginning{};
  MutableBytes read =
      MutableBytes(beginning).first(std::min<uint64_t>(file.size(), beginning.size()));
  TENON_TRY(file.read(0, read));
  return formatOf(Bytes(read));
}

Result<ImportResult> importModel(const std::string &path, const ImportOptions &options,
                                 mlir::MLIRContext &context, tn::WeightStore &store) {
  TENON_ASSIGN(Format format, formatOf(path));
  if (format == Format::Pt2) {
    return pt2::importPt2(path, options, context, store);
  }
  if (format == Format::Gguf) {
    return language::importGguf(path, options, context, store);
  }
  if (format == Format::Tflite) {
    return tflite::importTflite(path, options, context, store);
  }
  if (format == Format::Folder) {
    return language::importFolder(path, options, context, store);
  }
  return options.extraOutputs.empty()
             ? onnx::importOnnx(path, options, context, store)
             : onnx::importWithExtraOutputs(path, options.extraOutputs, options, context, store);
}

} // namespace tenon::frontend

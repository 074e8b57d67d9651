// Writes and reads phases. Relies on MLIR's printer and parser; the phase's name is the module
// attribute `tn.phase`.
#include "compiler/pipeline/PhaseDump.h"

#include "compiler/graph/Tn.h"
#include "compiler/pipeline/CodegenPhase.h"
#include "mlir/Parser/Parser.h"
#include "support/Hash.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <filesystem>

using namespace mlir;

namespace tenon::pipeline {
namespace {

constexpr llvm::StringLiteral kPhaseAttribute = "tn.phase";
/// Longer names become a hash: file systems end at 255 bytes.
constexpr size_t kLongestName = 120;

Bytes asBytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

Status writeFile(const std::string &path, Bytes bytes) {
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TENON_TRY(file.append(bytes));
  return file.commit();
}

/// A weight's id as a file name that cannot leave its folder.
std::string fileNameOf(llvm::StringRef id) {
  std::string name;
  for (char character : id) {
    bool isPlain = llvm::isAlnum(character) || character == '_' || character == '-' ||
                   (character == '.' && !name.empty());
    if (isPlain) {
      name += character;
    } else {
      name += '%' + llvm::toHex(static_cast<uint8_t>(character));
    }
  }
  return name.size() <= kLongestName ? name : hashText(std::string_view(id)).hex();
}

Status loadWeights(ModuleOp module, const std::string &folder, tn::WeightStore &weights) {
  std::set<std::string> loaded;
  Status status;
  module.walk([&](tn::WeightOp weight) {
    std::string id = weight.getId().str();
    if (!loaded.insert(id).second) {
      return WalkResult::advance();
    }
    std::string path = strCat(folder, "/weights/", fileNameOf(id));
    Result<MappedFile> file = MappedFile::open(path);
    RankedTensorType type = cast<RankedTensorType>(weight.getY().getType());
    uint64_t width = std::max(8u, type.getElementTypeBitWidth()) / 8;
    if (!file || file->bytes().size() != type.getNumElements() * width) {
      status =
          Status::error(ErrorId::BadPhaseDump,
                        strCat("weight '", id, "' is not in ", path, " with the size of its type"),
                        "keep the files of a --dump-phases folder together");
      return WalkResult::interrupt();
    }
    std::shared_ptr<MappedFile> owner = std::make_shared<MappedFile>(std::move(*file));
    llvm::ArrayRef<char> bytes(reinterpret_cast<const char *>(owner->bytes().data()),
                               owner->bytes().size());
    weights.keep(owner);
    weights.addView(id, bytes, path);
    return WalkResult::advance();
  });
  return status;
}

} // namespace

std::string printModule(Phase phase, ModuleOp module) {
  module->setAttr(kPhaseAttribute,
                  StringAttr::get(module.getContext(), llvm::StringRef(nameOf(phase))));
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().enableDebugInfo());
  module->removeAttr(kPhaseAttribute);
  return text;
}

Status PhaseDump::dumpFile(Phase phase, std::string_view suffix, std::string_view bytes) const {
  if (folder.empty()) {
    return Status::ok();
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return writeFile(strCat(folder, '/', static_cast<int>(phase), '-', nameOf(phase), suffix),
                   asBytes(bytes));
}

Status PhaseDump::dumpModule(Phase phase, ModuleOp module, tn::WeightStore &weights) {
  if (folder.empty()) {
    return Status::ok();
  }
  TENON_TRY(dumpFile(phase, ".mlir", printModule(phase, module)));
  std::error_code error;
  std::filesystem::create_directories(folder + "/weights", error);
  Status status;
  module.walk([&](tn::WeightOp weight) {
    if (!status || !written.insert(weight.getId().str()).second) {
      return;
    }
    llvm::ArrayRef<char> bytes = weights.bytes(weight.getId());
    status = writeFile(strCat(folder, "/weights/", fileNameOf(weight.getId())),
                       asBytes({bytes.data(), bytes.size()}));
  });
  return status;
}

Result<LoadedPhase> loadPhase(const std::string &path, MLIRContext &context,
                              tn::WeightStore &weights) {
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (message.empty()) {
      llvm::raw_string_ostream stream(message);
      stream << diagnostic.getLocation() << ": " << diagnostic.str();
    }
  });
  LoadedPhase loaded;
  loaded.module = parseSourceFile<ModuleOp>(path, &context);
  if (!loaded.module) {
    return Status::error(ErrorId::BadPhaseDump, strCat(path, ": ", message),
                         "give a file from --dump-phases of this version");
  }
  if (isRegionText(*loaded.module)) {
    loaded.phase = Phase::Codegen;
    return loaded;
  }
  StringAttr name = (*loaded.module)->getAttrOfType<StringAttr>(kPhaseAttribute);
  (*loaded.module)->removeAttr(kPhaseAttribute);
  for (Phase phase : {Phase::Import, Phase::Normalize, Phase::Optimize, Phase::Dispatch}) {
    if (name && name.getValue() == llvm::StringRef(nameOf(phase))) {
      loaded.phase = phase;
      TENON_TRY(loadWeights(*loaded.module, std::filesystem::path(path).parent_path(), weights));
      return loaded;
    }
  }
  return Status::error(ErrorId::BadPhaseDump, strCat(path, " does not name its phase"),
                       "start from import, normalize, optimize or dispatch");
}

} // namespace tenon::pipeline

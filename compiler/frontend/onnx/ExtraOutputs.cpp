// Writes the names into the model's list of outputs and imports that. Relies on the importer to say
// which of them are no tensors.
#include "compiler/frontend/onnx/ExtraOutputs.h"

#include "compiler/frontend/onnx/wire/Pieces.h"
#include "support/files/MappedFile.h"
#include "support/text/NearestName.h"
#include "support/text/Text.h"

namespace tenon::onnx {
namespace {

std::vector<std::string> innerValues(const Pieces &pieces) {
  std::vector<std::string> names;
  for (const Pieces::Node &node : pieces.nodes()) {
    for (std::string_view result : node.results) {
      if (!llvm::is_contained(pieces.outputs(), result)) {
        names.emplace_back(result);
      }
    }
  }
  return names;
}

/// What the names stand for.
Result<std::vector<std::string>> chosen(const Pieces &pieces,
                                        const std::vector<std::string> &extraOutputs) {
  std::vector<std::string> inner = innerValues(pieces);
  if (llvm::is_contained(extraOutputs, "*")) {
    return inner;
  }
  std::vector<std::string> names;
  for (const std::string &name : extraOutputs) {
    if (llvm::is_contained(pieces.outputs(), std::string_view(name)) ||
        llvm::is_contained(names, name)) {
      continue;
    }
    if (!llvm::is_contained(inner, name)) {
      return Status::error(ErrorId::BadArgument,
                           strCat("no node of the model produces '", name, "'"),
                           didYouMean(name, inner, "'tenon inspect MODEL' lists the nodes"));
    }
    names.push_back(name);
  }
  return names;
}

} // namespace

Result<std::vector<std::string>> innerValues(Bytes model) {
  TENON_ASSIGN(Pieces pieces, Pieces::read(model));
  return innerValues(pieces);
}

Result<ImportResult> importWithExtraOutputs(const std::string &path,
                                            const std::vector<std::string> &extraOutputs,
                                            const ImportOptions &options,
                                            mlir::MLIRContext &context, tn::WeightStore &store) {
  TENON_ASSIGN(MappedFile mapped, MappedFile::open(path));
  TENON_ASSIGN(Pieces pieces, Pieces::read(mapped.bytes()));
  TENON_ASSIGN(std::vector<std::string> names, chosen(pieces, extraOutputs));
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  while (true) {
    std::shared_ptr<std::string> text = std::make_shared<std::string>(pieces.withOutputs(names));
    store.keep(text);
    TENON_ASSIGN(ImportResult result,
                 importOnnx(std::as_bytes(std::span(*text)), folder, options, context, store));
    size_t before = names.size();
    for (const Gap &gap : result.gaps) {
      if (gap.opType == "Output") {
        std::erase(names, gap.node);
      }
    }
    if (names.size() == before) {
      return result;
    }
  }
}

} // namespace tenon::onnx

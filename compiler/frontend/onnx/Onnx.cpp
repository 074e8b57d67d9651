// The doors of the importer: a file or bytes are parsed, then imported.
// Relies on the mapping of the file being given to the weight store, which keeps it alive.
#include "compiler/frontend/onnx/Onnx.h"

#include "compiler/frontend/onnx/Importer.h"
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "support/files/MappedFile.h"

namespace tenon::onnx {

Result<ImportResult> importOnnx(Bytes bytes, const std::string &folder,
                                const ImportOptions &options, mlir::MLIRContext &context,
                                tn::WeightStore &store) {
  TENON_ASSIGN(Model model, readModel(bytes));
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  ExternalFiles files(folder);
  // Imported again where it turns out that a branch must not be: what it asks of sizes would hold
  // for the runs that do not take it too.
  ImportChoices choices;
  auto import = [&] {
    for (;;) {
      size_t known = choices.ruledOut.size();
      Result<ImportResult> result = Importer(model, options, files, context, store, choices).run();
      if (choices.ruledOut.size() == known) {
        return result;
      }
    }
  };
  auto isWhole = [](const Result<ImportResult> &result) { return result && result->gaps.empty(); };
  Result<ImportResult> result = import();
  if (isWhole(result) || !choices.hasSqueezedBatch) {
    return result;
  }
  // What follows a Squeeze without axes may be written for a batch of several.
  choices.batchIsOne = false;
  Result<ImportResult> other = import();
  return isWhole(other) ? std::move(other) : std::move(result);
}

Result<ImportResult> importOnnx(const std::string &path, const ImportOptions &options,
                                mlir::MLIRContext &context, tn::WeightStore &store) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) {
    return mapped.takeStatus();
  }
  std::shared_ptr<MappedFile> file = std::make_shared<MappedFile>(std::move(*mapped));
  store.keep(file);
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  Result<ImportResult> result = importOnnx(file->bytes(), folder, options, context, store);
  if (!result) {
    return result.takeStatus().prefix(path);
  }
  return result;
}

} // namespace tenon::onnx

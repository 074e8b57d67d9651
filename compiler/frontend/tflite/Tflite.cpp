// The doors of the importer.
#include "compiler/frontend/tflite/Tflite.h"

#include "compiler/frontend/tflite/Importer.h"
#include "support/files/MappedFile.h"

namespace tenon::tflite {

Result<frontend::ImportResult> importModel(Bytes bytes, const frontend::ImportOptions &options,
                                           mlir::MLIRContext &context, tn::WeightStore &store) {
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  TENON_ASSIGN(const fb::Model *model, readModel(bytes));
  return Importer(*model, options, context, store).run();
}

Result<frontend::ImportResult> importTflite(const std::string &path,
                                            const frontend::ImportOptions &options,
                                            mlir::MLIRContext &context, tn::WeightStore &store) {
  TENON_ASSIGN(MappedFile mapped, MappedFile::open(path));
  std::shared_ptr<MappedFile> file = std::make_shared<MappedFile>(std::move(mapped));
  store.keep(file);
  Result<frontend::ImportResult> result = importModel(file->bytes(), options, context, store);
  if (!result) {
    return result.takeStatus().prefix(path);
  }
  return result;
}

} // namespace tenon::tflite

// The doors of the importer. A program is imported again when it turns out to write a buffer: only
// then is it known which buffers are state and which are weights.
#include "compiler/frontend/pt2/Pt2.h"

#include "compiler/frontend/pt2/Importer.h"
#include "compiler/frontend/pt2/wire/ArchiveReader.h"
#include "support/files/MappedFile.h"

namespace tenon::pt2 {

Result<frontend::ImportResult> importProgram(const Program &program,
                                             const frontend::ImportOptions &options,
                                             mlir::MLIRContext &context, tn::WeightStore &store) {
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  for (const std::shared_ptr<void> &owner : program.owners) {
    store.keep(owner);
  }
  std::set<std::string> stateful;
  bool takesEmpty =
      llvm::any_of(program.ranges, [](const std::pair<const std::string, Range> &range) {
        return range.second.min == 0;
      });
  while (true) {
    Importer importer(program, options, context, store, stateful, takesEmpty);
    Result<frontend::ImportResult> result = importer.run();
    if (takesEmpty && (!result || !result->gaps.empty())) {
      takesEmpty = false; // some node has no meaning for no elements
      continue;
    }
    size_t known = stateful.size();
    stateful.insert(importer.written().begin(), importer.written().end());
    if (!result || stateful.size() == known) {
      return result;
    }
  }
}

Result<frontend::ImportResult> importPt2(const std::string &path,
                                         const frontend::ImportOptions &options,
                                         mlir::MLIRContext &context, tn::WeightStore &store) {
  TENON_ASSIGN(MappedFile mapped, MappedFile::open(path));
  std::shared_ptr<MappedFile> file = std::make_shared<MappedFile>(std::move(mapped));
  store.keep(file);
  Result<Program> program = readArchive(file->bytes());
  if (!program) {
    return program.takeStatus().prefix(path);
  }
  Result<frontend::ImportResult> result = importProgram(*program, options, context, store);
  if (!result) {
    return result.takeStatus().prefix(path);
  }
  return result;
}

} // namespace tenon::pt2

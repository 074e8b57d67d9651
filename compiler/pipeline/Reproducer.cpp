// Relies on `//` beginning a comment in MLIR's text form.
#include "compiler/pipeline/Reproducer.h"

#include "compiler/pipeline/ModelKey.h"
#include "support/files/AtomicFile.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::pipeline {

Status withReproducer(Status fault, const CompileOptions &options, std::string_view text) {
  std::string what(fault.message());
  std::replace(what.begin(), what.end(), '\n', ' ');
  std::string content =
      strCat("// ", compilerVersion(), ", ", nameOf(fault.id()), ": ", what, "\n// model ",
             options.model, "\n// options ", describeOptions(options), '\n', text);
  Result<AtomicFile> file = AtomicFile::create(options.reproducer);
  Status written = file ? file->append(std::as_bytes(std::span(content.data(), content.size())))
                        : file.takeStatus();
  if (written.isOk()) {
    written = file->commit();
  }
  std::string note = written.isOk() ? strCat("; reproducer: ", options.reproducer)
                                    : strCat("; no reproducer: ", written.message());
  return Status::error(fault.id(), strCat(fault.message(), note), fault.hint());
}

} // namespace tenon::pipeline

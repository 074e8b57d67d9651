// Implements it by support/files/AtomicFile.h.

#include "tools/tenon/print/TextFile.h"

#include "support/files/AtomicFile.h"

#include <span>

namespace tenon::tool {

Status writeTextFile(const std::string &path, const std::string &text) {
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TENON_TRY(file.append(std::as_bytes(std::span(text))));
  return file.commit();
}

} // namespace tenon::tool

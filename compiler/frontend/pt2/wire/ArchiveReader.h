// Reads the archives of torch.export.save: zip and JSON. Pickles in them are never read.
#pragma once

#include "compiler/frontend/pt2/wire/Program.h"
#include "support/Result.h"

namespace tenon::pt2 {

/// Whether the file begins like a zip archive that holds a PyTorch program.
bool looksLikeArchive(Bytes beginning);

/// The program in an archive that stays at `archive` as long as the program is used. Errors have
/// the numbers TN0239 to TN0242.
Result<Program> readArchive(Bytes archive);

/// The program of a description in JSON as the archive's models/model.json, with weights that the
/// caller adds.
Result<Program> readProgram(std::string_view json);

} // namespace tenon::pt2

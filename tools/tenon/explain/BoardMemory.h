// Where the arena of a folder of `--target c` goes, from the report that the folder holds.
#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <string>

namespace tenon::tool {

/// Whether it is a folder, or a file whose name ends with .json.
bool isBoardReport(const std::string &path);

/// tenon.edge/1 of a folder, in which it is the only .json, or of the file itself. TN0105 where it
/// is none.
Result<Json> readBoardReport(const std::string &path);

/// Each tensor with its rows, drawn over the steps of a run.
std::string boardMemoryText(const Json &report);

} // namespace tenon::tool

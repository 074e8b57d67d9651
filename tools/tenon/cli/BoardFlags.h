// The flags of `--target c`.
#pragma once

#include "tools/tenon/compile/Board.h"

namespace CLI {
class App;
} // namespace CLI

namespace tenon::tool {

/// --ram, --flash, --rows, --input-rows and --layout.
void declareBoardFlags(CLI::App &command, BoardRequest &board);

} // namespace tenon::tool

#include "tools/tenon/cli/BoardFlags.h"

#include "tools/tenon/cli/Options.h"

#include <CLI/CLI.hpp>

namespace tenon::tool {

void declareBoardFlags(CLI::App &command, BoardRequest &board) {
  constexpr uint64_t kMostOfBoard = uint64_t{1} << 32;
  addBytes(command, "--ram", {1, kMostOfBoard}, board.ram,
           "For --target c: the arena's most bytes (64KiB); rows make it smaller, and one that is "
           "still larger is refused");
  addBytes(command, "--flash", {1, kMostOfBoard}, board.flash,
           "For --target c: refuse more bytes of constants (256KiB)");
  command.add_flag("--rows", board.isByRows,
                   "For --target c: the smallest arena, row by row, even where --ram holds more");
  command.add_flag("--input-rows", board.isInputByRows,
                   "For --target c: the input comes row by row, so that it takes less memory");
  addChoice(command, "--layout", board.layout, kBoardLayouts,
            "For --target c: pictures come in as the model has them, or with channels last, which "
            "saves turning them and goes by rows");
}

} // namespace tenon::tool

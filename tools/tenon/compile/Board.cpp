#include "tools/tenon/compile/Board.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenon::tool {
namespace {

std::string peakText(const std::vector<std::string> &nodes) {
  constexpr size_t kNamed = 3;
  size_t named = std::min(nodes.size(), kNamed);
  std::string more =
      nodes.size() > named ? fmt::format(" and {} more", nodes.size() - named) : std::string();
  return fmt::format("{}{}", fmt::join(nodes.data(), nodes.data() + named, ", "), more);
}

/// Which flags make the arena fit, or how small they make it.
std::string choiceText(uint64_t ram, const std::vector<pipeline::BoardChoice> &choices) {
  auto fitting = std::ranges::find_if(choices, [&](const pipeline::BoardChoice &choice) {
    return static_cast<uint64_t>(choice.arenaBytes) <= ram;
  });
  if (fitting != choices.end()) {
    return fmt::format("with {} the arena has {} bytes, which fits", fitting->flags,
                       fitting->arenaBytes);
  }
  std::string least;
  if (!choices.empty()) {
    least = fmt::format("with {} it has {} bytes, and ", choices.back().flags,
                        choices.back().arenaBytes);
  }
  return least + "rows make it no smaller: make what these nodes read or write smaller, or raise "
                 "--ram";
}

} // namespace

Status checkBoardFlags(const BoardRequest &board, bool isBoard) {
  return isBoard || board == BoardRequest()
             ? Status::ok()
             : Status::error(
                   ErrorId::BadArgument,
                   "--name, --ram, --flash, --rows, --input-rows, --layout and --rounding are for "
                   "--target c and elf",
                   "leave them out");
}

pipeline::BoardPlan planOf(const BoardRequest &board) {
  pipeline::BoardPlan plan;
  plan.ram = board.ram;
  plan.isByRows = board.isByRows;
  plan.isInputByRows = board.isInputByRows;
  plan.isChannelsLast = board.layout != kBoardLayouts.front();
  return plan;
}

std::string takenText(const pipeline::CompiledToC &compiled) {
  const codegen::edge::Folder &folder = compiled.folder;
  std::string rows = folder.rowBytes > 0 ? fmt::format(", tables of rows {} bytes", folder.rowBytes)
                                         : std::string();
  return fmt::format(
      "arena {} bytes{}, stack {} bytes, weights {} bytes, scales and tables {} bytes{}",
      compiled.arenaBytes, compiled.isByRows ? " by rows" : "", compiled.stackBytes,
      folder.weightBytes, folder.scaleBytes, rows);
}

Status checkLimits(const std::string &model, const BoardRequest &board,
                   const pipeline::CompiledToC &compiled) {
  uint64_t arena = static_cast<uint64_t>(compiled.arenaBytes);
  if (board.ram > 0 && arena > board.ram) {
    return Status::error(ErrorId::MemoryBudgetExceeded,
                         fmt::format("{}: the arena has {} bytes{}, {} more than --ram", model,
                                     arena, compiled.isByRows ? " by rows" : "", arena - board.ram),
                         fmt::format("most is live at {}; {}", peakText(compiled.peakNodes),
                                     choiceText(board.ram, compiled.choices)));
  }
  uint64_t constants = static_cast<uint64_t>(compiled.folder.weightBytes +
                                             compiled.folder.scaleBytes + compiled.folder.rowBytes);
  if (board.flash > 0 && constants > board.flash) {
    std::string rows = compiled.folder.rowBytes > 0
                           ? fmt::format("{} of them are tables of rows, which a larger --ram "
                                         "saves; or ",
                                         compiled.folder.rowBytes)
                           : std::string();
    return Status::error(
        ErrorId::MemoryBudgetExceeded,
        fmt::format("{}: the constants have {} bytes, {} more than --flash", model, constants,
                    constants - board.flash),
        fmt::format("{}make the model narrower, for example with tenon prune before it is "
                    "quantized, or raise --flash",
                    rows));
  }
  return Status::ok();
}

} // namespace tenon::tool

#include "tools/tenon/explain/BoardMemory.h"

#include "support/files/MappedFile.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace tenon::tool {
namespace {

constexpr int64_t kColumns = 60;

Status notReport(const std::string &path) {
  return Status::error(ErrorId::BadArgument,
                       fmt::format("{}: this is not a report of --target c", path),
                       "give the folder that tenon compile --target c made");
}

/// The steps of a column.
int64_t firstOf(int64_t column, int64_t columns, int64_t steps) { return column * steps / columns; }

/// Of what is live at most in each column, the tenth of the arena.
std::string tenths(const Json &live, int64_t columns, int64_t arena) {
  std::string text;
  int64_t steps = static_cast<int64_t>(live.size());
  for (int64_t column = 0; column < columns; ++column) {
    int64_t most = 0;
    for (int64_t i = firstOf(column, columns, steps); i < firstOf(column + 1, columns, steps);
         ++i) {
      const Json &bytes = live[static_cast<size_t>(i)];
      most = std::max(most, bytes.is_number() ? bytes.get<int64_t>() : 0);
    }
    text += static_cast<char>('0' + std::clamp<int64_t>(most * 10 / arena, 0, 9));
  }
  return text;
}

std::string bar(int64_t begin, int64_t end, int64_t columns, int64_t steps) {
  std::string text;
  for (int64_t column = 0; column < columns; ++column) {
    bool isThere =
        begin < firstOf(column + 1, columns, steps) && end > firstOf(column, columns, steps);
    text += isThere ? '#' : '.';
  }
  return text;
}

} // namespace

bool isBoardReport(const std::string &path) {
  std::error_code error;
  return path.ends_with(".json") || std::filesystem::is_directory(path, error);
}

Result<Json> readBoardReport(const std::string &path) {
  std::string file = path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    for (const std::filesystem::directory_entry &entry :
         std::filesystem::directory_iterator(path, error)) {
      file = entry.path().extension() == ".json" ? entry.path().string() : file;
    }
    if (file == path) {
      return notReport(path);
    }
  }
  TENON_ASSIGN(MappedFile mapped, MappedFile::open(file));
  Bytes bytes = mapped.bytes();
  Json report = parseJson({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  bool isReport = textAt(report, "schema") == "tenon.edge/1" && numberAt(report, "arena_bytes") > 0;
  return isReport ? Result<Json>(std::move(report)) : notReport(file);
}

std::string boardMemoryText(const Json &report) {
  Json memory = fieldAt(report, "memory"), live = listAt(memory, "live_bytes");
  int64_t arena = numberAt(report, "arena_bytes"), steps = static_cast<int64_t>(live.size());
  int64_t columns = std::min(kColumns, std::max<int64_t>(steps, 1));
  std::string text = fmt::format(
      "{}: arena {} bytes, {} {}\n{:>8} {:>6} {:>8}\n{:>25} {:<24} {}\n",
      view::visible(textAt(report, "name")), arena, steps,
      numberAt(report, "row_bytes") > 0 ? "steps by rows" : "layers, whole tensors", "bytes",
      "rows", "at once", "", "tenths of the arena", tenths(live, columns, arena));
  for (const Json &tensor : listAt(memory, "tensors")) {
    int64_t atOnce = numberAt(tensor, "at_once");
    text += fmt::format("{:>8} {:>6} {:>8}  {:<24.24} {}\n", atOnce * numberAt(tensor, "row_bytes"),
                        numberAt(tensor, "rows"), atOnce, view::visible(textAt(tensor, "name")),
                        bar(numberAt(tensor, "begin"), numberAt(tensor, "end"), columns, steps));
  }
  return text;
}

} // namespace tenon::tool

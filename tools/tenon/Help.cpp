// `tenon help CODE`: prints the page of an error. The pages of docs/errors are part of the program.

#include "tools/tenon/Terminal.h"
#include "tools/tenon/Verb.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::tool {
namespace {

struct ErrorPage {
  std::string_view name;
  std::string_view text;
};

constexpr ErrorPage kPages[] = {
#include "tools/tenon/ErrorPages.inc"
};

const ErrorPage *findPage(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char character) { return static_cast<char>(std::toupper(character)); });
  for (const ErrorPage &page : kPages) {
    if (page.name == name) {
      return &page;
    }
  }
  return nullptr;
}

Status help(const std::string &name, Terminal &terminal) {
  const ErrorPage *page = findPage(name);
  if (!page) {
    return Status::error(ErrorId::BadArgument, fmt::format("there is no error '{}'", name),
                         fmt::format("codes go from {} to {}", std::begin(kPages)->name,
                                     std::prev(std::end(kPages))->name));
  }
  if (terminal.json()) {
    terminal.printJson("help", {{"code", page->name}, {"page", page->text}});
  } else {
    terminal.print(page->text);
  }
  return Status::ok();
}

} // namespace

Action declareHelp(CLI::App &command) {
  std::shared_ptr<std::string> name = std::make_shared<std::string>();
  command.add_option("CODE", *name, "Code of an error, as TN0301")->required();
  return [name](Terminal &terminal) { return help(*name, terminal); };
}

} // namespace tenon::tool

// `tenon help CODE|VERB`: prints the page of an error or the flags of a verb. The pages of
// docs/errors are part of the program.

#include "support/text/NearestName.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/print/Terminal.h"
#include "tools/tenon/print/Usage.h"

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

#include <CLI/CLI.hpp>
};

const ErrorPage *findPage(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char character) {
    return static_cast<char>(std::toupper(character));
  });
  for (const ErrorPage &page : kPages) {
    if (page.name == name) {
      return &page;
    }
  }
  return nullptr;
}

Status unknownTopic(const CLI::App &app, const std::string &name) {
  std::vector<std::string> known = verbNames(app);
  for (const ErrorPage &page : kPages) {
    known.emplace_back(page.name);
  }
  return Status::error(ErrorId::BadArgument, fmt::format("there is no error or verb '{}'", name),
                       didYouMean(name, known,
                                  fmt::format("codes go from {} to {}", std::begin(kPages)->name,
                                              std::prev(std::end(kPages))->name)));
}

const CLI::App *findVerb(const CLI::App &app, const std::string &name) {
  std::vector<const CLI::App *> found =
      app.get_subcommands([&](const CLI::App *verb) { return verb->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

Status help(const CLI::App &app, const std::string &name, Terminal &terminal) {
  const CLI::App *verb = findVerb(app, name);
  const ErrorPage *page = findPage(name);
  if (!name.empty() && !verb && !page) {
    return unknownTopic(app, name);
  }
  std::string text =
      page   ? std::string(page->text)
      : verb ? verb->help(app.get_name())
             : app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
  if (terminal.json()) {
    terminal.printJson(
        "help", {{page ? "code" : "verb", page ? std::string(page->name) : name}, {"page", text}});
  } else {
    terminal.print(text);
  }
  return Status::ok();
}

} // namespace

Action declareHelp(CLI::App &command) {
  std::shared_ptr<std::string> name = std::make_shared<std::string>();
  command.add_option("CODE|VERB", *name,
                     "An error code such as TN0301, or a verb; without it, all verbs");
  const CLI::App *app = command.get_parent();
  return [name, app](Terminal &terminal) { return help(*app, *name, terminal); };
}

} // namespace tenon::tool

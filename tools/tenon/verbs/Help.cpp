// `tenon help CODE|VERB`: prints the page of an error or the flags of a verb, those also as data
// and as a script of completion. The pages of docs/errors are part of the program.

#include "support/text/NearestName.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/HelpData.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/cli/Usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
                                  fmt::format("codes range from {} to {}", std::begin(kPages)->name,
                                              std::prev(std::end(kPages))->name)));
}

struct HelpFlags {
  std::vector<std::string> topic; ///< an error code, or the words of a verb
  std::string completion;
};

/// The verb of these words, `registry push`; null if one is none.
const CLI::App *findVerb(const CLI::App &app, const std::vector<std::string> &words) {
  const CLI::App *found = words.empty() ? nullptr : &app;
  for (const std::string &word : words) {
    std::vector<const CLI::App *> parts =
        found->get_subcommands([&](const CLI::App *verb) { return verb->get_name() == word; });
    if (parts.empty()) {
      return nullptr;
    }
    found = parts.front();
  }
  return found;
}

std::string helpText(const CLI::App &app, const CLI::App *verb) {
  return verb ? verb->help(app.get_name())
              : app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
}

/// What is asked for as JSON: the page as a person reads it, and a verb, or all of them, as data.
Json helpData(const CLI::App &app, const CLI::App *verb, const ErrorPage *page) {
  if (page) {
    return {{"code", page->name}, {"page", page->text}};
  }
  Json data = verb ? describeVerb(*verb) : Json{{"verbs", describeVerbs(app)}};
  data["page"] = helpText(app, verb);
  return data;
}

Status help(const CLI::App &app, const HelpFlags &flags, Terminal &terminal) {
  if (!flags.completion.empty()) {
    std::string script = completionScript(describeVerbs(app), flags.completion);
    terminal.json() ? terminal.printJson(
                          "help", {{"completion", flags.completion}, {"script", std::move(script)}})
                    : terminal.print(script);
    return Status::ok();
  }
  const CLI::App *verb = findVerb(app, flags.topic);
  const ErrorPage *page = flags.topic.size() == 1 && !verb ? findPage(flags.topic[0]) : nullptr;
  if (!flags.topic.empty() && !verb && !page) {
    return unknownTopic(app, fmt::format("{}", fmt::join(flags.topic, " ")));
  }
  if (terminal.json()) {
    terminal.printJson("help", helpData(app, verb, page));
  } else {
    terminal.print(page ? std::string(page->text) : helpText(app, verb));
  }
  return Status::ok();
}

} // namespace

Action declareHelp(CLI::App &command) {
  std::shared_ptr<HelpFlags> flags = std::make_shared<HelpFlags>();
  command.add_option("CODE|VERB", flags->topic,
                     "An error code such as TN0301, or a verb; without it, all verbs. With --json, "
                     "verbs as data: their arguments and flags");
  addChoice(
      command, "--completion", flags->completion, {"bash", "zsh", "fish"},
      "Print a completion script for the shell: in bash, source <(tenon help --completion bash)");
  const CLI::App *app = command.get_parent();
  return [flags, app](Terminal &terminal) { return help(*app, *flags, terminal); };
}

} // namespace tenon::tool

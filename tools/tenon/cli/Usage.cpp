// Implements the wording. An unknown word comes first: what else is missing often follows from it.

#include "tools/tenon/cli/Usage.h"

#include "support/text/NearestName.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tenon::tool {
namespace {

std::vector<std::string> flagNames(const CLI::App &command) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options()) {
    for (const std::string &name : option->get_lnames()) {
      names.push_back("--" + name);
    }
    for (const std::string &name : option->get_snames()) {
      names.push_back("-" + name);
    }
  }
  return names;
}

Status unknownWord(const CLI::App &app, const CLI::App *verb, const std::string &word) {
  std::string help = fmt::format("tenon {} --help shows the usage", verb ? verb->get_name() : "");
  if (word.starts_with('-') && word.size() > 1) {
    const CLI::App &command = verb ? *verb : app;
    std::string flag = word.substr(0, word.find('='));
    return Status::error(
        ErrorId::BadArgument,
        fmt::format("tenon{} has no option '{}'", verb ? " " + verb->get_name() : "", flag),
        didYouMean(flag, flagNames(command), verb ? help : "tenon --help shows the usage"));
  }
  if (verb) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("tenon {} does not accept '{}'", verb->get_name(), word),
                         help);
  }
  std::vector<std::string> verbs = verbNames(app);
  return Status::error(
      ErrorId::BadArgument, fmt::format("there is no verb '{}'", word),
      didYouMean(word, verbs, fmt::format("the verbs are {}", fmt::join(verbs, ", "))));
}

} // namespace

std::vector<std::string> verbNames(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *verb : app.get_subcommands({})) {
    names.push_back(verb->get_name());
  }
  return names;
}

Status describeUsage(const CLI::App &app, const CLI::ParseError &error) {
  std::vector<CLI::App *> chosen = app.get_subcommands();
  const CLI::App *verb = chosen.empty() ? nullptr : chosen.front();
  std::vector<std::string> unknown = app.remaining(true);
  if (!unknown.empty()) {
    return unknownWord(app, verb, unknown.front());
  }
  if (!verb) {
    return Status::error(
        ErrorId::BadArgument, "no verb was given",
        fmt::format("tenon help explains each verb: {}", fmt::join(verbNames(app), ", ")));
  }
  return Status::error(ErrorId::BadArgument, error.what(),
                       fmt::format("tenon {} --help shows the usage", verb->get_name()));
}

} // namespace tenon::tool

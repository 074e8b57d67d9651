// Implements the walk over what CLI11 keeps of each verb.

#include "tools/tenon/cli/HelpData.h"

#include <sstream>
#include <vector>

namespace tenon::tool {
namespace {

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

/// What an argument and a flag have in common. Choices are the words of the type, as addChoice
/// writes it.
Json describeValue(const CLI::Option &option) {
  bool takesValue = option.get_items_expected_max() > 0;
  std::string type = takesValue ? option.get_type_name() : "";
  Json choices = Json::array();
  if (type.find('|') != std::string::npos) {
    choices = split(type, '|');
  }
  return {{"value", takesValue ? Json(type) : Json()},
          {"required", option.get_required()},
          {"repeatable", takesValue && option.get_expected_max() > 1},
          {"choices", choices},
          {"default", option.get_default_str().empty() ? Json() : Json(option.get_default_str())},
          {"help", option.get_description()}};
}

Json describeOption(const CLI::Option &option) {
  if (option.nonpositional()) {
    Json names = Json::array();
    for (const std::string &name : option.get_snames()) {
      names.push_back("-" + name);
    }
    for (const std::string &name : option.get_lnames()) {
      names.push_back("--" + name);
    }
    Json flag = {{"names", names}};
    flag.update(describeValue(option));
    return flag;
  }
  Json argument = {{"name", option.get_name(true)}};
  argument.update(describeValue(option));
  return argument;
}

Json describeCommand(const CLI::App &command, const std::string &name) {
  Json arguments = Json::array(), flags = Json::array(), verbs = Json::array();
  for (const CLI::Option *option : command.get_options()) {
    if (!option->get_group().empty()) { // else it is hidden
      (option->nonpositional() ? flags : arguments).push_back(describeOption(*option));
    }
  }
  for (const CLI::App *part : command.get_subcommands({})) {
    verbs.push_back(describeCommand(*part, name + " " + part->get_name()));
  }
  std::string footer = command.get_footer();
  Json examples = Json::array();
  if (size_t title = footer.find(kExampleTitle); title != std::string::npos) {
    examples = split(footer.substr(title + kExampleTitle.size()), '\n');
  }
  return {{"verb", name},           {"summary", command.get_description()},
          {"arguments", arguments}, {"flags", flags},
          {"examples", examples},   {"verbs", verbs}};
}

} // namespace

Json describeVerb(const CLI::App &command) {
  std::string name = command.get_name();
  const CLI::App *parent = command.get_parent();
  for (; parent && parent->get_parent(); parent = parent->get_parent()) {
    name = parent->get_name() + " " + name;
  }
  return describeCommand(command, name);
}

Json describeVerbs(const CLI::App &app) {
  Json verbs = Json::array();
  for (const CLI::App *verb : app.get_subcommands({})) {
    verbs.push_back(describeVerb(*verb));
  }
  return verbs;
}

} // namespace tenon::tool

// Scripts by which shells complete a command line of `tenon`. Where nothing of ours fits, the shell
// completes names of files.

#include "tools/tenon/cli/HelpData.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace tenon::tool {
namespace {

using Words = std::vector<std::string>;

/// The verbs and their subcommands in one list.
void flatten(const Json &verbs, std::vector<const Json *> &found) {
  for (const Json &verb : verbs) {
    flatten(verb["verbs"], found); // first, since the name of a verb begins that of its parts
    found.push_back(&verb);
  }
}

/// What may follow the name: parts of the verb, or the choices of its first argument.
Words nextWords(const Json &verb) {
  Words words;
  for (const Json &part : verb["verbs"]) {
    std::string name = part["verb"];
    words.push_back(name.substr(name.rfind(' ') + 1));
  }
  bool isArgument = words.empty() && !verb["arguments"].empty();
  return isArgument ? verb["arguments"][0]["choices"].get<Words>() : words;
}

std::string bashScript(const Json &verbs) {
  std::vector<const Json *> all;
  flatten(verbs, all);
  Words names;
  for (const Json &verb : verbs) {
    names.push_back(verb["verb"]);
  }
  std::string cases;
  for (const Json *verb : all) {
    Words flags;
    std::string choices, name = (*verb)["verb"];
    for (const Json &flag : (*verb)["flags"]) {
      Words own = flag["names"];
      flags.insert(flags.end(), own.begin(), own.end());
      if (!flag["choices"].empty()) {
        choices += fmt::format("        {}) words=\"{}\"; fixed=1 ;;\n", fmt::join(own, "|"),
                               fmt::join(flag["choices"].get<Words>(), " "));
      }
    }
    cases += fmt::format("    \"{} \"*)\n      flags=\"{}\" words=\"{}\" depth={}\n"
                         "      case \"$before\" in\n{}      esac ;;\n",
                         name, fmt::join(flags, " "), fmt::join(nextWords(*verb), " "),
                         1 + std::count(name.begin(), name.end(), ' ') + 1, choices);
  }
  return fmt::format(R"(_tenon() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local flags="" words="{}" depth=1 fixed=""
  ((COMP_CWORD > 1)) && case "${{COMP_WORDS[*]:1}} " in
{}    *) words="" ;;
  esac
  [[ $word == -* && ! $fixed ]] && words="$flags" fixed=1
  ((COMP_CWORD == depth)) || [[ $fixed ]] || words=""
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _tenon tenon
)",
                     fmt::join(names, " "), cases);
}

/// The text as one word of fish.
std::string fishWord(const std::string &text) {
  std::string word = "'";
  for (char letter : text) {
    word += letter == '\'' || letter == '\\' ? "\\" : "";
    word += letter;
  }
  return word + "'";
}

std::string fishScript(const Json &verbs) {
  std::string script;
  std::vector<const Json *> all;
  flatten(verbs, all);
  for (const Json &verb : verbs) {
    script +=
        fmt::format("complete -c tenon -n __fish_use_subcommand -f -a {} -d {}\n",
                    verb["verb"].get<std::string>(), fishWord(verb["summary"].get<std::string>()));
  }
  for (const Json *verb : all) {
    std::string name = (*verb)["verb"], condition = "__fish_seen_subcommand_from " + name;
    if (size_t gap = name.find(' '); gap != std::string::npos) {
      condition = fmt::format("__fish_seen_subcommand_from {}; and __fish_seen_subcommand_from {}",
                              name.substr(0, gap), name.substr(gap + 1));
    }
    std::string begin = fmt::format("complete -c tenon -n {}", fishWord(condition));
    if (Words words = nextWords(*verb); !words.empty()) {
      script +=
          fmt::format("{} -f -a {}\n", begin, fishWord(fmt::format("{}", fmt::join(words, " "))));
    }
    for (const Json &flag : (*verb)["flags"]) {
      script += begin;
      for (const std::string &own : flag["names"].get<Words>()) {
        script += own.starts_with("--") ? " -l " + own.substr(2) : " -s " + own.substr(1);
      }
      Words choices = flag["choices"];
      script += flag["value"].is_null() ? "" : choices.empty() ? " -r" : " -x -a ";
      script += choices.empty() ? "" : fishWord(fmt::format("{}", fmt::join(choices, " ")));
      script += " -d " + fishWord(flag["help"].get<std::string>()) + "\n";
    }
  }
  return script;
}

} // namespace

std::string completionScript(const Json &verbs, std::string_view shell) {
  if (shell == "fish") {
    return fishScript(verbs);
  }
  // zsh reads the completion of bash.
  std::string first = shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "";
  return first + bashScript(verbs);
}

} // namespace tenon::tool

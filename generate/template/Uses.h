// What a template asks of its interpreter and of its caller, by name.
#pragma once

#include "generate/template/Syntax.h"

#include <set>
#include <string>

namespace tenon::generate::jinja {

struct Uses {
  std::set<std::string> statements; ///< "for", "if", "macro", "set"
  std::set<std::string> filters, tests;
  std::set<std::string> functions; ///< that are called by a name of the template's surroundings
  std::set<std::string> methods;   ///< that are called of a value
  std::set<std::string> variables; ///< of its surroundings: those that it does not set itself
};

Uses usesOf(const Body &body);

} // namespace tenon::generate::jinja

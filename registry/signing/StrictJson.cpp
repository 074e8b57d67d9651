#include "registry/signing/StrictJson.h"

#include <fmt/format.h>

#include <set>
#include <vector>

namespace tenon::signing {
namespace {

constexpr int kMaxDepth = 16;

} // namespace

Status parseStrictly(std::string_view text, std::string_view what, Json &value) {
  std::string problem;
  std::vector<std::set<std::string>> keys; // of the objects that are open
  Json::parser_callback_t look = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (depth > kMaxDepth) {
      problem = "is nested too deeply";
    } else if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key &&
               !keys.back().insert(parsed.get<std::string>()).second) {
      problem = "has a key twice";
    }
    return problem.empty(); // nothing more is kept of what is refused
  };
  value = Json::parse(text, look, false);
  bool hasMark = text.starts_with("\xef\xbb\xbf"); // of the byte order, which the grammar has not
  if (problem.empty() && (hasMark || value.is_discarded() || !value.is_object())) {
    problem = "is no JSON object";
  }
  return problem.empty()
             ? Status::ok()
             : Status::error(ErrorId::SignatureWrong, fmt::format("{} {}", what, problem),
                             "sign the model again with `tenon sign`");
}

const Json &member(const Json &object, const char *name) {
  static const Json kNone;
  Json::const_iterator found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNone;
}

std::string textOf(const Json &object, const char *name) {
  const Json &value = member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

} // namespace tenon::signing

// Implements the scan by brackets and quotes: what is between them is for a reader of JSON.
#include "generate/tools/ObjectScan.h"

#include "support/json/Json.h"

#include <nlohmann/json.hpp>

namespace tenon::generate {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

} // namespace

bool isBlank(char c) { return kBlanks.find(c) != kBlanks.npos; }

std::string_view withoutBlanks(std::string_view text) {
  while (!text.empty() && isBlank(text.front())) {
    text.remove_prefix(1);
  }
  return text;
}

std::string_view withoutBlanksBehind(std::string_view text) {
  while (!text.empty() && isBlank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

void ObjectScan::read(std::string_view text, const CallKeys &keys) {
  for (; at < text.size() && !isOver; ++at) {
    char c = text[at];
    if (isInString) {
      bool ends = c == '"' && !isEscaped;
      isEscaped = c == '\\' && !isEscaped;
      isInString = !ends;
      if (ends && depth == 1 && !isInValue) {
        Json read = parseJson(text.substr(keyBegin, at + 1 - keyBegin));
        key = read.is_string() ? read.get<std::string>() : std::string();
      }
      continue;
    }
    bool isFirst = isInValue && valueBegin == 0 && !isBlank(c);
    valueBegin = isFirst ? at : valueBegin;
    if (c == '"') {
      isInString = true;
      keyBegin = isInValue ? keyBegin : at;
    } else if (c == ':' && depth == 1 && !isInValue) {
      isInValue = true;
      valueBegin = 0;
    } else if (c == ',' && depth == 1) {
      endMember(text, at, keys);
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) {
        endMember(text, at, keys);
        isOver = true;
      }
    }
  }
  bool isOfArguments = isInValue && valueBegin > 0 &&
                       (key == keys.arguments || key == "arguments" || key == "parameters");
  if (isOfArguments && !isOver && text[valueBegin] == '{') {
    arguments = {valueBegin, at};
  }
}

void ObjectScan::endMember(std::string_view text, size_t end, const CallKeys &keys) {
  if (!isInValue) {
    return;
  }
  isInValue = false;
  std::string_view value = withoutBlanksBehind(text.substr(valueBegin, end - valueBegin));
  if (key == keys.name || key == "name") {
    Json read = parseJson(value);
    name = read.is_string() ? read.get<std::string>() : std::string();
  } else if (key == keys.arguments || key == "arguments" || key == "parameters") {
    arguments = {valueBegin, valueBegin + value.size()};
    isWhole = true;
  }
}

} // namespace tenon::generate

// A JSON object that comes character by character, as far as calls of tools need it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::generate {

bool isBlank(char c);
std::string_view withoutBlanks(std::string_view text);
std::string_view withoutBlanksBehind(std::string_view text);

/// What a call's members are called. "name", "arguments" and "parameters" are known too.
struct CallKeys {
  std::string name, arguments;
};

/// A JSON object, character by character: what its members of the first level are.
struct ObjectScan {
  size_t at = 0; ///< in the text
  int depth = 0;
  bool isInString = false, isEscaped = false, isOver = false;
  size_t keyBegin = 0, valueBegin = 0;
  std::string key = {};
  bool isInValue = false;
  std::optional<std::string> name = {};
  std::optional<std::pair<size_t, size_t>> arguments =
      {};               ///< where they stand, as far as they came
  bool isWhole = false; ///< of arguments

  /// Reads on, up to the object's end or that of the text.
  void read(std::string_view text, const CallKeys &keys);

private:
  void endMember(std::string_view text, size_t end, const CallKeys &keys);
};

} // namespace tenon::generate

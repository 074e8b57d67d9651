// The text form of protocol buffers as a tree of fields with their lines, without a schema. Source:
// "Text Format Language Specification" of protobuf; left out are extensions, Any and numbers in
// octal.

#pragma once

#include "support/Result.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

struct TextField {
  std::string name;
  unsigned line = 0;
  /// A string is without its quotes and escapes; numbers, booleans and names of enums are as
  /// they stand. Empty for a message.
  std::string value;
  bool isString = false;
  bool isMessage = false;
  std::vector<TextField> fields;
};

/// The fields in the order of the text; a list `[a, b]` gives one field for each element. TN0805
/// with the line, prefixed with `file`.
Result<std::vector<TextField>> parseTextProto(std::string_view text, std::string_view file);

} // namespace tenon::server

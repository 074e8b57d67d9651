// What an operation answers, field by field: HTTP makes JSON of it, gRPC a message, and neither is
// made from the other.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace tenon::server {

/// Writes one value: an object or a list, begun without a name. Members of objects have names,
/// those of lists have none.
class AnswerWriter {
public:
  virtual ~AnswerWriter() = default;
  virtual void begin(std::string_view name = {}) = 0; ///< an object, or a map of objects
  virtual void beginList(std::string_view name = {}) = 0;
  virtual void end() = 0; ///< of what was begun last
  virtual void text(std::string_view name, std::string_view value) = 0;
  virtual void flag(std::string_view name, bool value) = 0;
  virtual void number(std::string_view name, uint64_t value) = 0;
  virtual void numbers(std::string_view name, std::span<const int64_t> values) = 0;
  virtual void texts(std::string_view name, std::span<const std::string> values) = 0;
};

/// Fields, or a text that is sent as it is.
using Answer = std::variant<std::string, std::function<void(AnswerWriter &)>>;

/// An object with one member.
Answer flagAnswer(std::string_view name, bool value);
/// As HTTP sends it.
std::string textOf(const Answer &answer);

} // namespace tenon::server

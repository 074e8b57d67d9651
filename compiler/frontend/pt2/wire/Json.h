// Access to JSON that nobody vouches for: each step says where it went wrong, and the first failure
// sticks.
#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tenon::pt2 {

class JsonReader {
public:
  bool failed() const { return !failure.isOk(); }
  Status takeFailure() { return std::move(failure); }
  /// Notes that what stands at `where` is not as the schema says.
  void fail(std::string_view where, std::string_view what);

  /// A member of an object; null (after a failure) without it.
  const Json *member(const Json &object, const char *name);
  /// The same where it may be left out or null: a null pointer then, without a failure.
  const Json *optionalMember(const Json &object, const char *name);
  std::string text(const Json &object, const char *name);
  int64_t integer(const Json &object, const char *name);
  const Json &array(const Json &object, const char *name);
  const Json &object(const Json &object, const char *name);
  /// The name and value of the only member of a tagged union.
  std::pair<std::string, const Json *> tagged(const Json &value, std::string_view where);
  /// A number of floating point, which PyTorch writes as text where JSON has none.
  double real(const Json &value, std::string_view where);
  int64_t integerOf(const Json &value, std::string_view where);

private:
  Status failure;
};

/// The value of a text; an error of number TN0240 if it is no JSON.
Result<Json> parseProgramJson(std::string_view text, std::string_view what);

} // namespace tenon::pt2

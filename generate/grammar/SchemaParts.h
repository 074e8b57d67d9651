// What a JSON schema asks of a value, without references and without what only joins schemas: one
// list of conditions, and the alternatives that are still open.
#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate::grammar {

enum class JsonType : uint8_t { Null, Boolean, Integer, Number, String, Array, Object };
/// A bit for each JsonType; Number is what is not Integer, and a number has both.
using JsonTypes = uint8_t;
inline constexpr JsonTypes kAllTypes = 0x7F;
inline JsonTypes bitOf(JsonType type) {
  return static_cast<JsonTypes>(1u << static_cast<int>(type));
}
JsonTypes typesOf(const Json &value);

/// Keywords of one schema that count together: those of properties, or those of items.
using Part = Json;

struct Conditions {
  JsonTypes types = kAllTypes;
  bool hasType = false; ///< types are named
  std::optional<std::vector<Json>> values;
  std::vector<Part> objects, arrays;
  std::vector<std::string> required;
  std::vector<Json> names; ///< schemas of all names of properties
  std::vector<std::string> patterns, formats;
  std::vector<std::pair<Json, bool>> least, most; ///< a number, and whether it is exclusive
  uint64_t multiple = 1;
  uint64_t minLength = 0, minItems = 0, minProperties = 0;
  std::optional<uint64_t> maxLength, maxItems, maxProperties;
  bool areUnique = false;               ///< items
  std::vector<Json> excluded;           ///< values
  std::vector<std::string> notPatterns; ///< that match nowhere in a text
  /// At least `least` items are of the schema, and at most `most`.
  struct Contained {
    Json schema;
    uint64_t least = 1;
    std::optional<uint64_t> most;
    std::string path;
  };
  std::vector<Contained> contained;
  /// Schemas that hold together, or do not hold.
  struct Term {
    Json schema;
    std::string path;
    bool isNegated = false;
  };
  using Alternative = std::vector<Term>;
  /// One alternative of each list holds, and where `isExact` no other of it does.
  struct Choice {
    std::vector<Alternative> alternatives;
    bool isExact = false;
    std::string path;
  };
  std::vector<Choice> choices;

  /// Whether it asks for nothing beside its choices.
  bool isFree() const;
  /// The types that its keywords are about; all for none.
  JsonTypes keywordTypes() const;
};

/// A schema and what its references are looked up in.
class SchemaReader {
public:
  explicit SchemaReader(const Json &theRoot) : root(theRoot) {}

  /// TN0256 with the path for what is not known, and for references that lead nowhere.
  Result<Conditions> read(const Json &schema, const std::string &path);
  /// What the conditions ask and the alternative asks too.
  Status addTo(Conditions &to, const Conditions::Alternative &alternative);

private:
  Status add(Conditions &to, const Json &schema, const std::string &path, int depth);
  Status addReference(Conditions &to, const Json &value, const std::string &path, int depth);
  Status addKeyword(Conditions &to, const std::string &name, const Json &value,
                    const std::string &path, int depth);
  Status addParts(Conditions &to, const Json &schema, const std::string &path);
  Status addContained(Conditions &to, const Json &schema, const std::string &path);
  static Status addConditionals(Conditions &to, const Json &schema, const std::string &path);
  Result<const Json *> targetOf(const Json &reference, const std::string &path) const;
  // Of what is not to hold.
  Status addNot(Conditions &to, const Json &schema, const std::string &path, int depth);
  Status addNotKeyword(Conditions &to, const std::string &name, const Json &value,
                       const std::string &path, int depth);

  const Json &root;
  uint64_t joined = 0; ///< schemas
};

/// The members under a key; none where it is not there.
const Json &membersOf(const Json &of, const std::string &key);
bool isAnything(const Json &schema);
/// A schema that all of these are; `true` for none.
Json joined(std::vector<Json> schemas);

Status refuseSchema(const std::string &path, std::string_view what);

} // namespace tenon::generate::grammar

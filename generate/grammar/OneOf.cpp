// What is written of one alternative is compared with all that another takes: that it is apart has
// to follow from types, lists of values, or properties.
#include "generate/grammar/OneOf.h"

#include "support/text/Text.h"

#include <algorithm>
#include <utility>

namespace tenon::generate::grammar {
namespace {

bool isListed(const Conditions &conditions, const std::string &name) {
  return std::ranges::any_of(conditions.objects, [&](const Part &part) {
    return part.contains("properties") && part["properties"].contains(name);
  });
}

/// Whether objects are written with the listed properties only.
bool isClosed(const Conditions &conditions) {
  bool hasList = false;
  for (const Part &part : conditions.objects) {
    hasList = hasList || part.contains("properties");
    bool isOpen = part.contains("patternProperties") ||
                  (part.contains("additionalProperties") && part["additionalProperties"] != false);
    if (isOpen) {
      return false;
    }
  }
  return hasList && conditions.choices.empty();
}

Result<bool> areApart(SchemaReader &reader, const Conditions &written, const Conditions &other,
                      int depth) {
  if ((writtenTypes(written) & other.types) == 0) {
    return true;
  }
  if (written.values) {
    return std::ranges::all_of(*written.values, [&](const Json &value) {
      return (typesOf(value) & other.types) == 0 ||
             (other.values && std::ranges::find(*other.values, value) == other.values->end());
    });
  }
  constexpr int kMaxLook = 3;
  bool areObjects = writtenTypes(written) == bitOf(JsonType::Object);
  if (!areObjects || depth > kMaxLook) {
    return false;
  }
  for (const std::string &name : other.required) {
    if (isClosed(written) && !isListed(written, name)) {
      return true;
    }
    bool isInBoth = std::ranges::find(written.required, name) != written.required.end();
    if (!isInBoth) {
      continue;
    }
    TENON_ASSIGN(Conditions left, reader.read(propertyOf(written, name), "#"));
    TENON_ASSIGN(Conditions right, reader.read(propertyOf(other, name), "#"));
    TENON_ASSIGN(bool apart, areApart(reader, left, right, depth + 1));
    if (apart) {
      return true;
    }
  }
  return std::ranges::any_of(written.required, [&](const std::string &name) {
    return std::ranges::any_of(other.objects, [&](const Part &part) {
      bool isShut = part.contains("additionalProperties") &&
                    part["additionalProperties"] == false && !part.contains("patternProperties");
      return isShut && !(part.contains("properties") && part["properties"].contains(name));
    });
  });
}

} // namespace

Json propertyOf(const Conditions &conditions, const std::string &name) {
  std::vector<Json> schemas;
  for (const Part &part : conditions.objects) {
    if (part.contains("properties") && part["properties"].contains(name)) {
      schemas.push_back(part["properties"][name]);
    }
  }
  return joined(std::move(schemas));
}

bool hasNoValue(SchemaReader &reader, const Conditions &conditions) {
  auto isNone = [](const Conditions &of) {
    auto is = [&](const Json &value) {
      return (typesOf(value) & of.types) != 0 &&
             std::ranges::find(of.excluded, value) == of.excluded.end();
    };
    return of.types == 0 || (of.values && std::ranges::none_of(*of.values, is));
  };
  bool areObjects = writtenTypes(conditions) == bitOf(JsonType::Object);
  if (isNone(conditions) || !areObjects || conditions.required.empty()) {
    return isNone(conditions);
  }
  Result<Conditions> names = reader.read(joined(conditions.names), "#");
  return std::ranges::any_of(conditions.required, [&](const std::string &name) {
    if (names.isOk() && std::ranges::find(names->excluded, Json(name)) != names->excluded.end()) {
      return true;
    }
    Result<Conditions> said = reader.read(propertyOf(conditions, name), "#");
    return said.isOk() && isNone(*said);
  });
}

JsonTypes writtenTypes(const Conditions &conditions) {
  return conditions.hasType ? conditions.types : conditions.types & conditions.keywordTypes();
}

Result<std::optional<std::pair<size_t, size_t>>>
firstOverlap(SchemaReader &reader, const Conditions &base, const Conditions::Choice &choice) {
  constexpr size_t kMaxExact = 100;
  if (choice.alternatives.size() > kMaxExact) {
    return refuseSchema(choice.path, strCat("has more than ", kMaxExact, " alternatives"));
  }
  std::vector<Conditions> all;
  for (const Conditions::Alternative &alternative : choice.alternatives) {
    TENON_TRY(reader.addTo(all.emplace_back(base), alternative));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      TENON_ASSIGN(bool apart, i == j ? Result<bool>(true) : areApart(reader, all[i], all[j], 0));
      if (!apart) {
        return std::optional(std::pair(std::min(i, j), std::max(i, j)));
      }
    }
  }
  return std::optional<std::pair<size_t, size_t>>();
}

} // namespace tenon::generate::grammar

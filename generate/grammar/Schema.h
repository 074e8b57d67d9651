// JSON schemas as grammars: every text of the grammar is a value of the schema. What of a schema
// cannot be held is refused with its place.
//
// Values are a part of the schema's: properties stand in the schema's order, a schema with
// properties has no others unless it says so by additionalProperties, numbers have at most 15
// digits before and behind the point (18 for integers with bounds), and white space between tokens
// is nothing, one space, or one line end with up to 32 spaces or 8 tabs.
#pragma once

#include "generate/grammar/Grammar.h"
#include "support/Result.h"
#include "support/json/Json.h"

#include <memory>
#include <string>

namespace tenon::generate::grammar {

/// The rule of a schema's values in a grammar. TN0256; `path` is how the schema is called there.
Result<uint32_t> addSchema(Grammar &grammar, const JsonRules &rules, const Json &schema,
                           const std::string &path);

/// The grammar of a schema, measured. TN0256, also where no value satisfies it.
Result<std::shared_ptr<const Grammar>> compileSchema(const Json &schema);
/// Of any object.
std::shared_ptr<const Grammar> anyObject();

/// Measures a grammar whose root is set. TN0256 where it is too large or has no text.
Status completeGrammar(Grammar &grammar);

} // namespace tenon::generate::grammar

// Whether alternatives of a schema exclude each other, and whether what is joined excludes all.
#pragma once

#include "generate/grammar/SchemaParts.h"

#include <optional>
#include <utility>

namespace tenon::generate::grammar {

/// The types that values of these conditions are written in: those named, or those that keywords
/// are about.
JsonTypes writtenTypes(const Conditions &conditions);

/// What the listed schemas of a property say.
Json propertyOf(const Conditions &conditions, const std::string &name);
/// Whether types and lists of values alone leave nothing to write, of the value or of a property
/// that it needs. Seen early, it keeps alternatives of many conditions few.
bool hasNoValue(SchemaReader &reader, const Conditions &conditions);

/// The first alternatives of a oneOf that a value may satisfy both, which is written of one beside
/// `base`. TN0256 where there are too many.
Result<std::optional<std::pair<size_t, size_t>>>
firstOverlap(SchemaReader &reader, const Conditions &base, const Conditions::Choice &choice);

} // namespace tenon::generate::grammar

// Whether alternatives of a schema's oneOf exclude each other.
#pragma once

#include "generate/grammar/SchemaParts.h"

namespace tenon::generate::grammar {

/// The types that values of these conditions are written in: those named, or those that keywords
/// are about.
JsonTypes writtenTypes(const Conditions &conditions);

/// TN0256 where a value that is written of one alternative, beside `base`, may satisfy another.
Status checkApart(SchemaReader &reader, const Conditions &base, const Conditions::Choice &choice);

} // namespace tenon::generate::grammar

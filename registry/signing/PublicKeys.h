// Public keys as a line of text, for a rule that keeps the keys themselves and not where they lie.

#pragma once

#include "support/Result.h"

#include <string>
#include <string_view>

namespace tenon::signing {

/// Those of a PEM file: "key FINGERPRINT BASE64", with ", " between several. TN1017 as PemFile has
/// it, and for certificates: they end, and a rule that was kept once is kept ever after.
Result<std::string> lineOfKeys(const std::string &path);

/// The text of a PEM file with the keys of such a line. TN1017 where it is none.
Result<std::string> pemOfLine(std::string_view line);

} // namespace tenon::signing

// Signatures of versions, for the commands that make and show them.

#pragma once

#include "registry/Registry.h"
#include "tools/tenon/cli/Terminal.h"

#include <functional>
#include <string>
#include <vector>

namespace tenon::tool {

/// Signs a version by a private key, for PushRequest::sign. TN1017 where the key cannot sign.
Result<std::function<Result<std::string>(const registry::Version &)>>
signatureBy(const std::string &key, const std::vector<std::string> &certificates);

/// Who has made a signature, as the signature says.
std::string signerOf(const std::string &bundle);
Json signersOf(const std::vector<std::string> &bundles);

/// Writes the newest signature, if a path is given; TN1015 where there is none.
Status writeSignature(const std::vector<std::string> &bundles, const registry::Version &version,
                      const std::string &path);

} // namespace tenon::tool

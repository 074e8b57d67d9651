// Models that are split over several files. Relies on the names that their writers give parts.
#pragma once

#include "compiler/frontend/weights/gguf/Gguf.h"
#include "support/files/MappedFile.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::gguf {

/// The paths of the parts after the first, by the first one's name: "NAME-00001-of-00003.gguf".
/// Empty for another name.
std::vector<std::string> laterParts(const std::string &path);

/// Reads the parts after the first, where its keys say that there are more, and adds their tensors
/// to it. The result keeps them mapped. TN0243 where a part belongs elsewhere; a part that cannot
/// be opened is named.
Result<std::vector<std::shared_ptr<MappedFile>>> readLaterParts(const std::string &path,
                                                                File &first);

} // namespace tenon::gguf

// Parts of the folder's text that several of its files have. Internal to this folder.
#pragma once

#include "compiler/codegen/edge/Program.h"

namespace tenon::codegen::edge {

std::string upper(std::string_view name);
/// One line for a comment.
std::string commentText(std::string_view text);
/// The first line of a file.
std::string beginText(std::string_view name, std::string_view what);
/// The table of where a tensor's rows lie.
std::string placesText(std::string_view name, int tensor);
/// Where the row `row` of a tensor lies, from `bytes` on.
std::string rowText(const Program &program, std::string_view name, int tensor);

std::string selfTestText(const Program &program, const std::string &name,
                         const std::vector<LayerHash> &hashes);

} // namespace tenon::codegen::edge

// What an engine records of rows and padded places (schema tenon.rows/1), for people and programs.

#pragma once

#include "support/json/Json.h"

#include <string>
#include <string_view>

namespace tenon::tool {

/// Adds "rows", by output, and "padding", by dim; lists are empty where there is no record.
void addRows(Json &report, std::string_view record);

/// "rows    y: node 'x' takes the mean over the rows", one a line, each behind `indent`.
std::string rowsText(std::string_view record, std::string_view indent);

} // namespace tenon::tool

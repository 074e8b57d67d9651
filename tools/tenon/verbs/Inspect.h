// What `tenon inspect` shows, without a terminal: for whoever else wants what is known of a model
// or engine.

#pragma once

#include "support/Result.h"
#include "tools/tenon/cli/Terminal.h"

#include <string>
#include <vector>

namespace tenon::tool {

struct InspectRequest {
  std::string path;                ///< of a model or an engine
  std::string format = "text";     ///< or "json", "dot", "svg", "html", "onnx"
  std::vector<std::string> shapes; ///< of a model as for compile; of an engine those of figures
  std::string level;               ///< of an engine; empty for the profile's, or this machine's
  std::string profile;             ///< a file of times for an engine, or empty
};

/// JSON with the name of its schema, or else text (for "onnx" the bytes of a file).
struct Inspection {
  std::string schema;
  Json json;
  std::string text;
};

Result<Inspection> inspectFile(const InspectRequest &request);

} // namespace tenon::tool

// What a model asks for or what an engine holds, as text, data, drawing or page. A model that Tenon
// cannot compile is shown as its file declares it.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"
#include "tools/tenon/generate/Fitting.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tenon::tool {

struct InspectRequest {
  std::string path;                ///< of a model or an engine
  std::string format = "text";     ///< or "json", "dot", "svg", "html", "onnx"
  std::vector<std::string> shapes; ///< of a model as for compile; of an engine those of figures
  std::string level;               ///< of an engine; empty for the profile's, or this machine's
  std::string profile;             ///< a file of times for an engine, or empty
  std::string output;              ///< a file that takes it; empty for none
  UsersRequest users;              ///< of an engine of a language model
};

/// JSON with the name of its schema, or else text (for "onnx" the bytes of a file).
struct Inspection {
  std::string schema;
  Json json;
  std::string text;

  /// All of it as a file has it.
  std::string contents() const;
};

const std::vector<std::string> kInspectFormats = {"text", "json", "dot", "svg", "html", "onnx"};

/// Also writes the output, which is none of the inputs.
Result<Inspection> inspectFile(const InspectRequest &request);
/// At most 40 lines of a longer text about the file at `path`: its beginning, its totals, and what
/// is done next.
std::string inspectionScreen(const std::string &text, const std::string &path);

} // namespace tenon::tool

// The commands of advice: the engine's own options, with one change. They can be pasted into a
// shell.

#pragma once

#include "tools/tenon/profile/Profile.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// A text as one word of a shell.
std::string quoted(const std::string &text);

/// What differs from the options that the engine was compiled with.
struct CompileChange {
  std::vector<std::string> without = {}; ///< options, as the engine records them
  std::string target = "";               ///< in place of the engine's; empty for that
  std::string more = "";                 ///< flags besides
  std::string output = "faster.tenon";
};
std::string compileCommand(const Profile &profile, const CompileChange &change);
/// `tenon bench` of the engine with these inputs.
std::string runCommand(const Profile &profile, const InputDims &inputs, const std::string &flags);
std::string explainCommand(const Profile &profile, const std::string &topic,
                           const std::string &node);

/// "ids:1x128" of the input that decides most sizes.
std::string firstShape(const Profile &profile);
/// The model's name of the node of a region that takes longest.
std::string nodeOf(const Profile &profile, size_t region);

} // namespace tenon::tool

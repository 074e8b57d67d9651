// What a file to push is, by its content, what it says of itself, and whether it is safe to hand
// on. It relies on the readers of Tenon: no file is opened by anything that could run what is in
// it.

#pragma once

#include "registry/Folder.h"
#include "support/Result.h"
#include "tools/tenon/cli/Terminal.h"

#include <string>

namespace tenon::tool {

struct Artifact {
  std::string kind; ///< of registry::kKinds
  Json facts =
      Json::object(); ///< of an engine: compiler, source (hash of its model), options, targets
};

/// `kind` is what the user says it is, or empty. TN1010 for pickles, programs, and archives whose
/// entries leave their folder or cannot be looked at; what is no engine or damaged as its reader
/// says.
Result<Artifact> examine(const std::string &path, const std::string &kind);

/// The same of the files of a version of several, each of which is looked at. What the version is,
/// `main` tells, the path of one of them; where empty, the only engine, else the only model among
/// them is it. Weights that a model keeps in other files must be among them: TN1010.
Result<Artifact> examineFiles(const std::vector<registry::SourceFile> &files,
                              const std::string &kind, const std::string &main);

} // namespace tenon::tool

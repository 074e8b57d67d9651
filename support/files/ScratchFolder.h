// A folder for files that nobody needs after this process. What a killed process left is removed by
// the next one that makes a folder of the same name.

#pragma once

#include "support/Result.h"

#include <string>

namespace tenon {

/// Removed with all that is in it when the object goes. The folder is locked as long as it lives,
/// which is how those of killed processes are told from those in use.
class ScratchFolder {
public:
  /// Makes `parent`/`name`-XXXXXX for the user only. `parent` is there.
  static Result<ScratchFolder> create(const std::string &parent, const std::string &name);
  /// The same in the folder for temporary files ($TMPDIR or /tmp).
  static Result<ScratchFolder> create(const std::string &name);
  ScratchFolder(ScratchFolder &&other) noexcept;
  ScratchFolder &operator=(ScratchFolder &&other) noexcept;
  ~ScratchFolder();

  const std::string &path() const { return folder; }

private:
  ScratchFolder(std::string path, int descriptor) : folder(std::move(path)), fd(descriptor) {}

  std::string folder;
  int fd = -1;
};

} // namespace tenon

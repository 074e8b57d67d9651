// Decides whether a path may become an output, so that no command destroys what it reads and none
// writes to a device. Relies on device and inode telling files apart, whatever their names.

#pragma once

#include "support/Result.h"

#include <span>
#include <string>

namespace tenon {

/// The folder that holds `path`, as it is written: "." for a bare name.
std::string folderOf(const std::string &path);

/// Where an output called `path` is made: symbolic links are followed to their end, which need not
/// exist yet. Refused are a folder, device, FIFO or socket, a folder that may not be written to,
/// and a file that is one of `inputs` or that the results are printed to, under whichever name.
/// Inputs that do not exist are passed over.
Result<std::string> resolveOutput(const std::string &path,
                                  std::span<const std::string> inputs = {});

/// For outputs that are a folder of files: refuses what exists and is no folder.
Status checkOutputFolder(const std::string &path);

} // namespace tenon

// The files of a version of several: a model with its external data, its tokenizer, labels and
// config.pbtxt. Each file is a blob of its own, so one that several versions have is stored once.
//
// Such a version's hash is the SHA-256 of its manifest, the text below, which is a blob too. The
// push event and the table `part` have the same list, so that the manifest follows from each of
// them:
//
//   {"files":[{"path":"labels.txt","sha256":"...","bytes":20},...]}     paths in the order of bytes

#pragma once

#include "registry/BlobStore.h"
#include "support/Result.h"
#include "support/json/Json.h"

#include <string>
#include <vector>

namespace tenon::registry {

/// A file of a version.
struct Part {
  std::string path; ///< in the version, with '/' between its names
  Blob blob;
};

/// A file that is to become one.
struct SourceFile {
  std::string path;   ///< in the version
  std::string source; ///< where it is now
  FileStamp stamp;    ///< when it was looked at
};

inline constexpr size_t kMaxParts = 1000;

/// The rows of the manifest, and back: TN1010 for paths that leave the folder, that a file system
/// without upper and lower case takes for one, or that are not in their order.
Json rowsOf(const std::vector<Part> &parts);
Result<std::vector<Part>> partsOf(const Json &rows);
std::string manifestOf(const std::vector<Part> &parts);
uint64_t bytesOf(const std::vector<Part> &parts);

/// What a version of several files is called instead of a file: "resnet/".
bool isFolderName(std::string_view file);

/// The files of one folder, or those that are named, by their paths. What `tenon sign` leaves out
/// (.git, what belongs to it, model.sig) is left out. TN1010 for links and what is no file, TN0105
/// for an empty folder and more than kMaxParts files.
Result<std::vector<SourceFile>> sourcesOf(const std::vector<std::string> &named);

} // namespace tenon::registry

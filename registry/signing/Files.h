// The files of a model on the disk: what a signature is made of, and what it is compared with.

#pragma once

#include "registry/signing/Manifest.h"

#include <string>
#include <vector>

namespace tenon::signing {

/// What is not looked at besides what a signature says itself, and .git, .gitattributes, .github
/// and .gitignore.
struct Exclusions {
  std::string signature;          ///< the path of the signature; empty where it is not in the model
  std::vector<std::string> paths; ///< in the model, with what is below them
  bool ignoresUnsigned = false;   ///< files that nobody signed are passed over
};

/// Whether a name at the top of a model's folder is one that is never looked at: .git and what
/// belongs to it.
bool isLeftOut(const std::string &name);

/// Where the signature of a model is by default: model.sig in a folder, FILE.sig beside a file.
std::string signaturePathOf(const std::string &path);

/// Reads a file, or all files of a folder. TN1017 for symbolic links and what is no file, for a
/// folder without files and for paths to exclude that are none in the model; else as files are
/// read.
Result<Manifest> manifestOf(const std::string &path, const Exclusions &exclusions);
/// Of one file whose SHA-256 is known.
Manifest manifestOfFile(const std::string &name, const std::string &sha256);

/// Reads what is there now; TN1016 where it is not what was signed: which files were changed, added
/// or are gone.
Status compareFiles(const Manifest &signedOnes, const std::string &path,
                    const Exclusions &exclusions);

/// Of several files whose SHA-256 are known, by their paths.
Manifest manifestOfFiles(const std::string &name, std::vector<Resource> files);

/// The SHA-256 that the one file of a model was signed with, `name` being what it is called. TN1016
/// where the signature is of several files, of another one, or has another kind of hash.
Result<std::string> signedHash(const Manifest &manifest, const std::string &name);

} // namespace tenon::signing

// What is signed of a model: its files with their hashes, as an in-toto statement (Statement v1)
// with the predicate of OpenSSF Model Signing v1.0. https://github.com/ossf/model-signing-spec has
// the rules that names and orders follow.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::signing {

/// A file, or a part of one ("weights.bin:0:1000000").
struct Resource {
  std::string name;   ///< path in the model with '/' between its parts; "." for a model of one file
  std::string digest; ///< lower-case hexadecimal digits
};

struct Manifest {
  std::string model;                 ///< a name for people: that of the file or folder
  std::string algorithm = "sha256";  ///< or "blake2b", of 512 bits
  bool followsLinks = false;         ///< files behind symbolic links belong to the model
  std::optional<uint64_t> partBytes; ///< files are hashed in parts of so many bytes
  std::vector<std::string>
      ignored; ///< paths that do not belong to the model, with what is below them
  std::vector<Resource> resources; ///< in the order that was signed
  /// The layout of model-signing 0.2, which has no order, ignored paths or algorithm.
  bool isOfVersion02 = false;
};

/// The name that the one file of a model has, whatever it is called.
inline constexpr const char *kOnlyFile = ".";

/// The statement as JSON, with the resources ordered by name. TN1017 where a name is not UTF-8.
Result<std::string> statementOf(Manifest manifest);
/// TN1016 for what is no such statement, or one that contradicts itself. Names in it stay in the
/// model's folder.
Result<Manifest> parseStatement(std::string_view statement);

/// Whether a path is relative, has no part "..", "." or "", and no byte 0.
bool staysInside(std::string_view path);

} // namespace tenon::signing

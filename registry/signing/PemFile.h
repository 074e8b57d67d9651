// Public keys and certificates of PEM files.

#pragma once

#include "registry/signing/OpenSsl.h"

#include <string>
#include <vector>

namespace tenon::signing {

struct PemFile {
  std::vector<Key> keys;
  std::vector<Certificate> certificates;

  /// Of all files in their order. TN1017 for a file without any, for what is damaged, for private
  /// keys, and for public keys on other curves than P-256, P-384 and P-521.
  static Result<PemFile> open(const std::vector<std::string> &paths);
  /// Those of the text of one, which messages call `path`.
  static Status add(const std::string &path, const std::string &text, PemFile &file);
};

} // namespace tenon::signing

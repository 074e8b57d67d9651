// Signatures of versions: events, as promotions are, so that a version may be signed when it is
// pushed or later, by several keys, and the history says by whom it was put there.

#include "registry/Registry.h"

#include "registry/signing/Bundle.h"
#include "registry/signing/Files.h"

#include <fmt/format.h>

#include <map>

namespace tenon::registry {
namespace {

/// TN1016 unless what was signed are the version's files, no more and no less.
Status checkFiles(const signing::Manifest &manifest, const Version &version) {
  std::map<std::string, std::string> has, should;
  for (const signing::Resource &resource : manifest.resources) {
    has[resource.name] = resource.digest;
  }
  for (const Part &part : version.parts) {
    should[part.path] = part.blob.hash;
  }
  bool isSame = manifest.algorithm == "sha256" && !manifest.partBytes && has == should;
  return isSame ? Status::ok()
                : Status::error(
                      ErrorId::SignatureWrong,
                      fmt::format("the signature does not cover the files of {}", version.text()),
                      "sign the version with `tenon registry sign`");
}

/// TN1016 unless the bundle says that it is of the version's file.
Status checkSubject(const signing::Manifest &manifest, const Version &version) {
  if (version.isFolder()) {
    return checkFiles(manifest, version);
  }
  TENON_ASSIGN(std::string hash, signing::signedHash(manifest, version.file));
  return hash == version.blob.hash
             ? Status::ok()
             : Status::error(
                   ErrorId::SignatureWrong,
                   fmt::format("the signature does not cover the file of {}", version.text()),
                   "sign the version with `tenon registry sign`");
}

} // namespace

signing::Manifest signedOf(const Version &version) {
  if (!version.isFolder()) {
    return signing::manifestOfFile(version.file, version.blob.hash);
  }
  std::vector<signing::Resource> files;
  for (const Part &part : version.parts) {
    files.push_back({part.path, part.blob.hash});
  }
  return signing::manifestOfFiles(version.file.substr(0, version.file.size() - 1),
                                  std::move(files));
}

Status noSignature(const Version &version) {
  return Status::error(
      ErrorId::SignatureMissing, fmt::format("{} has no signature", version.text()),
      fmt::format("sign it: tenon registry sign {} --key KEY.pem", version.text()));
}

Status checkSignature(const std::string &bundle, const Version &version) {
  if (bundle.size() > signing::kMaxBytesOfOne) {
    return Status::error(
        ErrorId::SignatureWrong,
        fmt::format("the signature has {} bytes, more than the signature of one file needs",
                    bundle.size()),
        "sign the version with `tenon registry sign`");
  }
  TENON_ASSIGN(signing::Verified described, signing::describeBundle(bundle));
  return checkSubject(described.manifest, version);
}

Status Registry::addSignature(const Version &version, const std::string &bundle) {
  TENON_TRY(checkSignature(bundle, version));
  Event event;
  event.action = "sign";
  event.object = version.name;
  event.version = version.number;
  event.detail = {{"bundle", bundle}};
  return add(std::move(event));
}

Status Registry::signPushed(const PushRequest &request, const Version &version) {
  if (!request.sign) {
    return Status::ok();
  }
  TENON_ASSIGN(std::string bundle, request.sign(version));
  return addSignature(version, bundle);
}

Status Registry::sign(const Version &version, const std::string &bundle) {
  TENON_ASSIGN(Transaction transaction, beginAs(Role::Push, version.name));
  TENON_ASSIGN(Version present, find({version.name, version.number, ""}));
  if (present.isDeleted) {
    return Status::error(ErrorId::NoSuchObject, fmt::format("gc deleted {}", version.text()),
                         "push its file again; it gets a new number");
  }
  TENON_TRY(addSignature(present, bundle));
  return finish(transaction);
}

Result<std::vector<std::string>> Registry::signatures(const Version &version) {
  std::vector<std::string> bundles;
  Query query(
      *database,
      std::string(kEventColumns) +
          "WHERE object = $1 AND alias = '' AND version = $2 AND action = 'sign' ORDER BY id DESC",
      version.name, version.number);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return bundles;
    }
    bundles.push_back(readEvent(query).detail.value("bundle", ""));
  }
}

Status Registry::requireSignature(const Version &version, const signing::Trust &trust) {
  TENON_ASSIGN(std::vector<std::string> bundles, signatures(version));
  return registry::requireSignature(bundles, version, trust);
}

Status requireSignature(const std::vector<std::string> &bundles, const Version &version,
                        const signing::Trust &trust) {
  Status first = noSignature(version);
  for (size_t i = 0; i < bundles.size(); ++i) {
    Result<signing::Verified> verified = trust.verify(bundles[i]);
    Status status =
        verified.isOk() ? checkSubject(verified->manifest, version) : verified.takeStatus();
    if (status.isOk()) {
      return status;
    }
    first = i == 0 ? status.prefix(version.text()) : first; // of the newest
  }
  return first;
}

Status requireSigners(const Terms &terms, const std::vector<std::string> &bundles,
                      const Version &version) {
  for (const signing::Trust &signer : terms.signers) {
    TENON_TRY(requireSignature(bundles, version, signer));
  }
  return Status::ok();
}

} // namespace tenon::registry

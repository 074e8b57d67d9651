// `tenon registry sign`, and what other commands need of signatures.

#include "tools/tenon/registry/Signing.h"

#include "registry/signing/Bundle.h"
#include "registry/signing/Files.h"
#include "registry/signing/Signer.h"
#include "support/files/AtomicFile.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace tenon::tool {
namespace {

struct SignFlags {
  std::string what, key, bundle;
  std::vector<std::string> certificates;
};

Result<std::string> makeSignature(const SignFlags &flags, const registry::Version &version) {
  if (!flags.bundle.empty()) {
    return signing::readBundle(flags.bundle);
  }
  TENON_ASSIGN(signing::Signer signer, signing::Signer::open(flags.key, flags.certificates));
  return signer.sign(signedOf(version));
}

Status sign(const SignFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  if (flags.key.empty() == flags.bundle.empty()) {
    return Status::error(ErrorId::BadArgument,
                         "a version needs a key to sign it, or a signature made elsewhere",
                         "give --key KEY.pem or --signature FILE");
  }
  TENON_ASSIGN(registry::Reference reference, registry::parseReference(flags.what));
  TENON_ASSIGN(registry::Registry registry, openRegistry(where));
  TENON_ASSIGN(registry::Version version, registry.find(reference));
  if (!version.isDeleted) {
    TENON_TRY(registry.check(version)); // damaged bytes get no new signature
  }
  TENON_ASSIGN(std::string bundle, makeSignature(flags, version));
  TENON_TRY(registry.sign(version, bundle));
  if (terminal.json()) {
    terminal.printJson(
        "registry.sign",
        {{"name", version.name}, {"version", version.number}, {"signer", signerOf(bundle)}});
  } else {
    terminal.print(fmt::format("{} is signed by {}\n", version.text(), signerOf(bundle)));
  }
  return Status::ok();
}

} // namespace

Result<std::function<Result<std::string>(const registry::Version &)>>
signatureBy(const std::string &key, const std::vector<std::string> &certificates) {
  TENON_ASSIGN(signing::Signer opened, signing::Signer::open(key, certificates));
  std::shared_ptr<signing::Signer> signer = std::make_shared<signing::Signer>(std::move(opened));
  return std::function<Result<std::string>(const registry::Version &)>(
      [signer](const registry::Version &version) { return signer->sign(signedOf(version)); });
}

std::string signerOf(const std::string &bundle) {
  Result<signing::Verified> described = signing::describeBundle(bundle);
  return described.isOk() ? described->signer : "nobody: the signature is damaged";
}

Json signersOf(const std::vector<std::string> &bundles) {
  Json signers = Json::array();
  for (const std::string &bundle : bundles) {
    signers.push_back(signerOf(bundle));
  }
  return signers;
}

Status writeSignature(const std::vector<std::string> &bundles, const registry::Version &version,
                      const std::string &path) {
  if (path.empty()) {
    return Status::ok();
  }
  if (bundles.empty()) {
    return noSignature(version);
  }
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TENON_TRY(file.append(std::as_bytes(std::span(bundles.front()))));
  return file.commit();
}

RegistryTask declareRegistrySign(CLI::App &command) {
  std::shared_ptr<SignFlags> flags = std::make_shared<SignFlags>();
  command.add_option("REF", flags->what, "NAME:VERSION, NAME@ALIAS, or NAME for the newest")
      ->required();
  command.add_option("--key", flags->key,
                     "PEM file of a private key on P-256, P-384 or P-521, without a passphrase");
  command
      .add_option("--certificate-chain", flags->certificates,
                  "PEM file with the key's certificate and those that signed it (repeat for more)")
      ->allow_extra_args(false);
  command.add_option(
      "--signature", flags->bundle,
      "A signature of the version's file made elsewhere, for example by `tenon sign`");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return sign(*flags, where, terminal);
  };
}

} // namespace tenon::tool

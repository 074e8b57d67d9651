// `tenon verify`: the signature of a model, then its files.

#include "registry/signing/Bundle.h"
#include "registry/signing/Files.h"
#include "registry/signing/Trust.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Terminal.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace tenon::tool {
namespace {

struct VerifyFlags {
  std::string path, signature;
  std::vector<std::string> trusted, ignored;
  bool ignoresUnsigned = false;
};

Status verify(const VerifyFlags &flags, Terminal &terminal) {
  TENON_ASSIGN(signing::Trust trust, signing::Trust::open(flags.trusted));
  std::string signature =
      flags.signature.empty() ? signing::signaturePathOf(flags.path) : flags.signature;
  TENON_ASSIGN(std::string bundle, signing::readBundle(signature));
  TENON_ASSIGN(signing::Verified verified, trust.verify(bundle));
  TENON_TRY(signing::compareFiles(verified.manifest, flags.path,
                                  {signature, flags.ignored, flags.ignoresUnsigned}));
  size_t files = verified.manifest.resources.size();
  if (terminal.json()) {
    terminal.printJson("verify", {{"model", flags.path},
                                  {"signature", signature},
                                  {"signer", verified.signer},
                                  {"files", files}});
  } else {
    terminal.print(fmt::format("{} matches what {} signed, {} file{}\n", flags.path,
                               verified.signer, files, files == 1 ? "" : "s"));
  }
  return Status::ok();
}

} // namespace

Action declareVerify(CLI::App &command) {
  std::shared_ptr<VerifyFlags> flags = std::make_shared<VerifyFlags>();
  command.add_option("PATH", flags->path, "A file, or a folder with all files below it")
      ->required();
  command
      .add_option(
          "--trusted", flags->trusted,
          "PEM file with trusted public keys and certificates of authorities (repeat for more)")
      ->required()
      ->allow_extra_args(false);
  command.add_option("--signature", flags->signature,
                     "The signature; by default PATH.sig, or model.sig in the folder");
  command.add_option("--ignore", flags->ignored, "A path in the folder to skip (repeat for more)")
      ->allow_extra_args(false);
  command.add_flag("--ignore-unsigned", flags->ignoresUnsigned,
                   "Skip files of the folder that were not signed");
  return [flags](Terminal &terminal) { return verify(*flags, terminal); };
}

} // namespace tenon::tool

// `tenon sign`: hashes a model's files and writes a signature of them.

#include "registry/signing/Files.h"
#include "registry/signing/Signer.h"
#include "registry/signing/Trust.h"
#include "support/files/AtomicFile.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/Terminal.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace tenon::tool {
namespace {

struct SignFlags {
  std::string path, key, output;
  std::vector<std::string> certificates, ignored;
};

Status sign(const SignFlags &flags, Terminal &terminal) {
  TENON_ASSIGN(signing::Signer signer, signing::Signer::open(flags.key, flags.certificates));
  std::string output = flags.output.empty() ? signing::signaturePathOf(flags.path) : flags.output;
  TENON_ASSIGN(signing::Manifest manifest,
               signing::manifestOf(flags.path, {output, flags.ignored, false}));
  TENON_ASSIGN(std::string bundle, signer.sign(manifest));
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(output, std::vector{flags.path, flags.key}));
  TENON_TRY(file.append(std::as_bytes(std::span(bundle))));
  TENON_TRY(file.commit());
  TENON_ASSIGN(signing::Verified described, signing::describeBundle(bundle));
  size_t files = manifest.resources.size();
  if (terminal.json()) {
    terminal.printJson("sign", {{"model", flags.path},
                                {"signature", output},
                                {"signer", described.signer},
                                {"files", files}});
  } else {
    terminal.print(fmt::format("{} signed {}, {} file{}: {}\n", described.signer, flags.path, files,
                               files == 1 ? "" : "s", output));
  }
  return Status::ok();
}

} // namespace

Action declareSign(CLI::App &command) {
  std::shared_ptr<SignFlags> flags = std::make_shared<SignFlags>();
  command.add_option("PATH", flags->path, "A file, or a folder with all files below it")
      ->required();
  command
      .add_option("--key", flags->key,
                  "PEM file of a private key on P-256, P-384 or P-521, without a passphrase")
      ->required();
  command
      .add_option("--certificate-chain", flags->certificates,
                  "PEM file with the key's certificate and those that signed it, for verifiers "
                  "that trust an authority (repeat for more)")
      ->allow_extra_args(false);
  command
      .add_option("--ignore", flags->ignored,
                  "A path in the folder that does not belong to the model (repeat for more)")
      ->allow_extra_args(false);
  addOutput(command, flags->output,
            "The signature; by default PATH.sig, or model.sig in the folder");
  return [flags](Terminal &terminal) { return sign(*flags, terminal); };
}

} // namespace tenon::tool

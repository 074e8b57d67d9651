// Both flags have the same words wherever they are.
#include "tools/tenon/cli/KernelFlags.h"

#include <CLI/CLI.hpp>

namespace tenon::tool {

void declareKernelFlags(CLI::App &command, KernelFlags &flags) {
  command
      .add_option("--kernel-library", flags.libraries,
                  "Compute operators by your own kernels: an object file, or PTX for GPUs, with a "
                  "description beside it, the same name with .json (repeat for more); "
                  "docs/guides/kernels.md")
      ->allow_extra_args(false);
  command.add_flag("--unchecked-kernels", flags.areUnchecked,
                   "Also take kernels that have no reference or do not run on this machine");
}

} // namespace tenon::tool

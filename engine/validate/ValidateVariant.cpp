// The level first: it says what the rest is checked for.

#include "engine/validate/ValidateVariant.h"

#include "engine/code/ElfCheck.h"
#include "engine/code/PtxCheck.h"
#include "engine/validate/Validate.h"
#include "support/text/Text.h"

namespace tenon::engine {
namespace {

/// A name of the table means what the table says; others mean what the file says.
Status checkLevel(const VariantEntry &entry) {
  const Level *level = findLevel(entry.level);
  bool isGood =
      isArchitecture(static_cast<uint8_t>(entry.architecture)) &&
      (!level || (level->architecture == entry.architecture && level->features == entry.features));
  return isGood ? Status::ok()
                : Status::error(ErrorId::EngineBadManifest,
                                strCat("the level does not match its name: architecture ",
                                       static_cast<unsigned>(entry.architecture), ", features ",
                                       entry.features),
                                "use a newer runtime, or compile the model again");
}

} // namespace

Status validateVariant(const VariantEntry &entry, const Plan &plan, std::span<const Weight> weights,
                       Bytes code, Bytes cubin) {
  TENON_TRY(checkLevel(entry));
  bool isGpu = entry.architecture == Architecture::Nvptx;
  TENON_TRY(validatePlan(plan, weights, entry.kernels.size(), isGpu ? kGpu : kHost));
  TENON_TRY(isGpu ? checkPtx(code, entry.level)
                  : checkCodeObject(code, entry.architecture, entry.kernels));
  return cubin.empty() ? Status::ok() : checkCubin(cubin, entry.level);
}

} // namespace tenon::engine

// Relies on dispatch recording regions in the order of their numbers.
#include "compiler/pipeline/SelectKernels.h"

#include "compiler/codegen/common/RegionSource.h"
#include "compiler/dispatch/Dispatch.h"
#include "compiler/dispatch/Names.h"
#include "support/NearestName.h"
#include "support/Text.h"

#include <cmath>

using namespace mlir;

namespace tenon::pipeline {
namespace {

constexpr std::string_view kListed =
    "tenon explain kernels ENGINE NODE lists what each family offers";

Status checkFamily(const std::string &name) {
  std::vector<std::string> names = kernelFamilyNames();
  return llvm::is_contained(names, name)
             ? Status::ok()
             : Status::error(ErrorId::BadArgument, strCat("there is no kernel family '", name, "'"),
                             didYouMean(name, names, kListed));
}

/// What a kernel may be predicted to take beyond what bytes and operations of its region need: so
/// many times that, and so many microseconds more.
constexpr double kSlowTimes = 4, kSlowMicroseconds = 20;

/// Why no kernel of a region is near what its bytes and operations need; empty if one is.
std::string slownessOf(const dispatch::KernelSelection &selection, const dispatch::Cost &bound) {
  if (selection.microseconds <= kSlowTimes * bound.microseconds + kSlowMicroseconds) {
    return "";
  }
  std::string text = strCat("about ", std::llround(selection.microseconds / bound.microseconds),
                            " times what its bytes and operations need: ");
  std::string others;
  for (const dispatch::CandidateRecord &candidate : selection.candidates) {
    if (candidate.verdict == "chosen") {
      text += candidate.why;
    } else if (candidate.verdict == "refused") {
      others += strCat("; ", candidate.kernel, " refused: ", candidate.why);
    }
  }
  return text + others;
}

} // namespace

Result<WantedKernels> WantedKernels::create(const CompileOptions &options) {
  WantedKernels wanted;
  for (const KernelOption &option : options.kernels) {
    llvm::Expected<dispatch::KernelChoice> kernel = dispatch::KernelChoice::parse(option.kernel);
    if (!kernel) {
      return Status::error(ErrorId::BadArgument, llvm::toString(kernel.takeError()), kListed);
    }
    TENON_TRY(checkFamily(kernel->family));
    wanted.kernels.push_back({option.node, std::move(*kernel)});
  }
  for (const std::string &family : options.disabledFamilies) {
    TENON_TRY(checkFamily(family));
  }
  wanted.disabledFamilies = options.disabledFamilies;
  return wanted;
}

const dispatch::KernelChoice *WantedKernels::find(llvm::ArrayRef<std::string> nodes) {
  const dispatch::KernelChoice *found = nullptr;
  for (Wanted &each : kernels) {
    if (llvm::is_contained(nodes, each.node)) {
      each.isFound = true;
      found = &each.kernel;
    }
  }
  return found;
}

Status WantedKernels::checkFound() const {
  for (const Wanted &each : kernels) {
    if (!each.isFound) {
      return Status::error(ErrorId::BadArgument, strCat("no region has the node '", each.node, "'"),
                           "tenon explain kernels ENGINE lists the regions");
    }
  }
  return Status::ok();
}

const KernelSelector::Answer &KernelSelector::ask(tn::RegionOp region) {
  const dispatch::KernelChoice *kernel = wanted.find(dispatch::nodeNames(region.getLoc()));
  std::string text = codegen::outline(region).text;
  auto [entry, isNew] = known.try_emplace(strCat(text, kernel ? kernel->text() : ""));
  Answer &answer = entry->second;
  if (isNew) {
    llvm::Expected<dispatch::KernelSelection> selection =
        target.select(text, {kernel, wanted.disabled()});
    if (selection) {
      answer.selection = std::move(*selection);
    } else {
      answer.problem = llvm::toString(selection.takeError());
    }
  }
  return answer;
}

LogicalResult KernelSelector::formRegions(ModuleOp module, const target::Target &profile,
                                          dispatch::Records &records) {
  auto microseconds = [&](tn::RegionOp region) {
    const Answer &answer = ask(region);
    return answer.problem.empty() ? answer.selection.microseconds
                                  : std::numeric_limits<double>::infinity();
  };
  return dispatch::dispatch(module, profile, microseconds, records);
}

Status KernelSelector::select(ModuleOp module, dispatch::Records &records) {
  Status status;
  module.walk([&](tn::RegionOp region) {
    const Answer &answer = ask(region);
    if (!answer.problem.empty()) {
      status =
          Status::error(wanted.areAny() ? ErrorId::BadArgument : ErrorId::CodegenFailed,
                        strCat("no kernel for ", dispatch::nameOf(region), " on ", target.level,
                               ": ", answer.problem),
                        std::string(wanted.areAny() ? kListed : "report this with the reproducer"));
      return WalkResult::interrupt();
    }
    const dispatch::KernelSelection &selection = answer.selection;
    region->setAttr(codegen::kKernelAttribute, selection.chosen.toAttribute(module.getContext()));
    if (selection.weight) {
      dispatch::layOutWeight(region, *selection.weight);
    }
    if (std::optional<uint64_t> number = region.getReason()) {
      dispatch::RegionRecord &record = records.regions[*number];
      record.kernel = selection.chosen.text();
      record.candidates = selection.candidates;
      record.slow = slownessOf(selection, record.cost);
      records.setKernelTime(*number, selection.microseconds);
    }
    return WalkResult::advance();
  });
  dispatch::clearPackable(module);
  return status;
}

} // namespace tenon::pipeline

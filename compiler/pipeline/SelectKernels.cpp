// Relies on dispatch recording regions in the order of their numbers.
#include "compiler/pipeline/SelectKernels.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/dispatch/Dispatch.h"
#include "compiler/dispatch/Names.h"
#include "compiler/pipeline/FitWeights.h"
#include "support/text/NearestName.h"
#include "support/text/Text.h"

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

/// What would have been chosen, but for its weights.
void noteExcluded(std::vector<dispatch::CandidateRecord> &candidates, const std::string &kernel) {
  for (dispatch::CandidateRecord &candidate : candidates) {
    if (candidate.kernel == kernel && candidate.verdict == "possible") {
      candidate.verdict = "excluded";
      candidate.why = "its weights pass --max-weights; " + candidate.why;
    }
  }
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
  return ask(codegen::outline(region).text, wanted.find(dispatch::nodeNames(region.getLoc())));
}

const KernelSelector::Answer &KernelSelector::ask(const std::string &text,
                                                  const dispatch::KernelChoice *kernel) {
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

const dispatch::KernelSelection *KernelSelector::predict(tn::RegionOp region,
                                                         const std::string &kernel) {
  const Answer *answer = &ask(region);
  if (answer->problem.empty() && answer->selection.chosen.text() == kernel) {
    return &answer->selection;
  }
  dispatch::KernelChoice choice = llvm::cantFail(dispatch::KernelChoice::parse(kernel));
  answer = &ask(codegen::outline(region).text, &choice);
  return answer->problem.empty() ? &answer->selection : nullptr;
}

const KernelSelector::Answer &KernelSelector::askMeasured(tn::RegionOp region,
                                                          MeasuredKernels &measured) {
  const Answer &predicted = ask(region);
  if (!predicted.problem.empty() || wanted.find(dispatch::nodeNames(region.getLoc()))) {
    return predicted;
  }
  codegen::RegionSource source = codegen::outline(region);
  std::string label = dispatch::nameOf(region);
  MeasuredKernels::Found found =
      measured.find(source, label, predicted.selection.chosen, wanted.disabled());
  if (!found.kernel) {
    return predicted;
  }
  auto [entry, isNew] = known.try_emplace(strCat("measured ", source.text));
  Answer &answer = entry->second;
  if (isNew) {
    answer = ask(source.text, &*found.kernel);
    for (dispatch::CandidateRecord &candidate : answer.selection.candidates) {
      candidate.why = candidate.verdict == "chosen" ? strCat(found.why, "; ", candidate.why)
                                                    : std::move(candidate.why);
    }
  }
  if (!answer.problem.empty()) {
    measured.refuse(answer.problem);
    return predicted;
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

std::vector<dispatch::KernelCandidate> KernelSelector::kernelsOf(tn::RegionOp region) {
  const Answer &answer = ask(region);
  std::vector<dispatch::KernelCandidate> kernels;
  if (!answer.problem.empty()) {
    return kernels; // which the choice will tell
  }
  const dispatch::KernelSelection &first = answer.selection;
  kernels.push_back({first.chosen, first.microseconds, first.weight});
  if (wanted.find(dispatch::nodeNames(region.getLoc()))) {
    return kernels;
  }
  llvm::Expected<std::vector<dispatch::KernelCandidate>> all =
      target.candidates(codegen::outline(region).text);
  if (!all) {
    llvm::consumeError(all.takeError());
    return kernels;
  }
  llvm::copy_if(*all, std::back_inserter(kernels), [&](const dispatch::KernelCandidate &kernel) {
    return !llvm::is_contained(wanted.disabled(), kernel.kernel.family);
  });
  return kernels;
}

Status
KernelSelector::select(ModuleOp module, dispatch::Records &records,
                       std::optional<double> maxWeights, MeasuredKernels *measured,
                       llvm::function_ref<void(tn::RegionOp, dispatch::RegionRecord &)> chosen) {
  llvm::DenseMap<Operation *, dispatch::KernelChoice> smaller;
  if (maxWeights) {
    TENON_ASSIGN(smaller, fitWeights(module, *maxWeights,
                                     [&](tn::RegionOp region) { return kernelsOf(region); }));
  }
  Status status;
  module.walk([&](tn::RegionOp region) {
    const Answer &fastest = measured && !maxWeights ? askMeasured(region, *measured) : ask(region);
    auto other = smaller.find(region);
    bool isSmaller = other != smaller.end();
    const Answer &answer = isSmaller ? ask(codegen::outline(region).text, &other->second) : fastest;
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
    if (std::optional<uint64_t> number = region.getRecord()) {
      dispatch::RegionRecord &record = records.regions[*number];
      record.kernel = selection.chosen.text();
      record.candidates = selection.candidates;
      if (isSmaller) {
        noteExcluded(record.candidates, fastest.selection.chosen.text());
      }
      record.slow = slownessOf(selection, record.cost);
      if (tn::isInvariant(module)) {
        const Answer &freely = ask(codegen::outlineFreely(region).text,
                                   wanted.find(dispatch::nodeNames(region.getLoc())));
        record.freely = {freely.selection.chosen.text(), freely.selection.microseconds};
      }
      records.setKernelTime(*number, selection.microseconds);
      if (chosen) {
        chosen(region, record);
      }
    }
    if (selection.weight) {
      dispatch::layOutWeight(region, *selection.weight);
    }
    return WalkResult::advance();
  });
  dispatch::clearPackable(module);
  return status;
}

} // namespace tenon::pipeline

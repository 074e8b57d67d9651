// The table of kernel families, and the one place that chooses among them: by predicted times.
// Relies on the order of rows where those are close, and on the last one taking any region.
#include "compiler/codegen/cuda/KernelFamily.h"

#include "compiler/codegen/common/region/FamilyScope.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Tn.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

const KernelFamily *const kFamilies[] = {
    &kGemmBuckets,    &kGemmBucketsGenerated,
    &kGemv,           &kGemmSkinny,
    &kCublasLt,       &kCudnnConv,
    &kGemmPersistent, &kGemmTensorCore,
    &kGemmSimt,       &kConvTensorCore,
    &kConvSimt,       &kConvDepthwise,
    &kCudnnAttention, &kAttentionStream,
    &kAttentionFlash, &kAttentionSimt,
    &kSelection,      &kTopK,
    &kRadixSort,      &kPrefixScan,
    &kRecurrence,     &kScatter,
    &kRowsStaged,     &kRowsInRegisters,
    &kRowsInLoops,    &kColumnsTiled,
    &kPointwise,
};

bool serves(const KernelFamily &family, StringRef strategy) {
  return family.strategies.front().empty() || llvm::is_contained(family.strategies, strategy);
}

/// By its own name, or by that of a library's call where it may have one.
bool isDisabledBy(ArrayRef<std::string> disabled, const KernelFamily &family) {
  return llvm::any_of(disabled, [&](const std::string &name) {
    const KernelFamily *other = findFamily(name);
    return name == family.name || (family.mayCall && other && other->isCall);
  });
}

/// The configuration of the family's own choice with what the user asks for, if it is one that the
/// family can be compiled with; else why it is not.
llvm::Expected<dispatch::KernelChoice> adjusted(const KernelFamily &family, RegionBuilder &region,
                                                const dispatch::KernelChoice &own,
                                                const dispatch::KernelChoice &wanted) {
  dispatch::KernelChoice choice = own;
  for (const auto &[name, numbers] : wanted.parameters) {
    auto found = choice.parameters.find(name);
    if (found == choice.parameters.end() || found->second.size() != numbers.size()) {
      return llvm::createStringError("'" + wanted.text() + "' does not fit the parameters of '" +
                                     own.text() + "'");
    }
    found->second = numbers;
  }
  if (choice == own || llvm::is_contained(configsOf(family, region), choice)) {
    return choice;
  }
  return llvm::createStringError("'" + choice.text() + "' is not a configuration for this region");
}

} // namespace

llvm::ArrayRef<const KernelFamily *> kernelFamilies() { return kFamilies; }

const KernelFamily *findFamily(StringRef name) {
  const auto *found =
      llvm::find_if(kFamilies, [&](const KernelFamily *family) { return family->name == name; });
  return found == std::end(kFamilies) ? nullptr : *found;
}

double epilogueSeconds(RegionBuilder &region) {
  constexpr double exposed = 2.5;
  dispatch::CostModel costs(region.source->getParentOfType<ModuleOp>(), region.gpu);
  bool isBehind = false;
  double work = 0;
  llvm::SmallSetVector<Value, 4> read;
  for (Operation &op : region.source.getBody().front().without_terminator()) {
    if (isBehind) {
      work += costs.workOf(&op);
      for (Value operand : op.getOperands()) {
        if (isa<BlockArgument>(operand)) {
          read.insert(operand);
        }
      }
    }
    isBehind |= op.hasTrait<tn::TnContraction>();
  }
  double bytes = 0;
  for (Value value : read) {
    bytes += double(costs.bytesOf(value));
  }
  return bytes / region.gpu.memoryBandwidth + exposed * work / region.gpu.peak;
}

std::optional<dispatch::WeightLayout> weightLayoutOf(const KernelFamily &family,
                                                     RegionBuilder &region) {
  return family.weightLayout ? family.weightLayout(region) : std::nullopt;
}

std::vector<dispatch::KernelChoice> configsOf(const KernelFamily &family, RegionBuilder &region) {
  if (family.configs) {
    return family.configs(region);
  }
  Offer offer = family.match(region);
  return offer.choice ? std::vector{*offer.choice} : std::vector<dispatch::KernelChoice>();
}

double costOf(const KernelFamily &family, RegionBuilder &region,
              const dispatch::KernelChoice &choice) {
  if (family.cost) {
    bool isOfProducts = family.strategies.front() == dispatch::kContraction;
    double epilogue = isOfProducts ? epilogueSeconds(region) : 0;
    return (family.cost(region, choice) + epilogue) * 1e6;
  }
  return dispatch::costOfRegion(region.source.getBody().front(), region.gpu, /*isGenerated=*/true)
      .microseconds;
}

std::vector<dispatch::KernelCandidate> kernelCandidates(RegionBuilder &region) {
  std::vector<dispatch::KernelCandidate> candidates;
  for (const KernelFamily *family : kFamilies) {
    if (!serves(*family, region.strategy()) || !family->match(region).choice) {
      continue;
    }
    for (dispatch::KernelChoice &choice : configsOf(*family, region)) {
      double microseconds = costOf(*family, region, choice);
      candidates.push_back({std::move(choice), microseconds, weightLayoutOf(*family, region)});
    }
  }
  return candidates;
}

FailureOr<dispatch::KernelSelection> selectKernel(RegionBuilder &region,
                                                  const dispatch::KernelRequest &request) {
  dispatch::KernelSelection selection;
  std::optional<size_t> best;
  for (const KernelFamily *family : kFamilies) {
    if (!serves(*family, region.strategy())) {
      continue;
    }
    dispatch::CandidateRecord record{family->name.str(), "refused", "", 0};
    Offer offer = family->match(region);
    record.why = offer.why;
    if (offer.choice) {
      bool isWanted = !request.wanted || request.wanted->family == family->name;
      if (isWanted && request.wanted) {
        llvm::Expected<dispatch::KernelChoice> choice =
            adjusted(*family, region, *offer.choice, *request.wanted);
        if (!choice) {
          return region.source.emitError(llvm::toString(choice.takeError()));
        }
        offer.choice = *choice;
      }
      bool isDisabled = isDisabledBy(request.disabled, *family);
      record.kernel = offer.choice->text();
      record.microseconds = costOf(*family, region, *offer.choice);
      record.verdict = isDisabled ? "disabled" : "possible";
      bool isBetter = !best || record.microseconds < dispatch::kSwitchMargin *
                                                         selection.candidates[*best].microseconds;
      if (!isDisabled && isWanted && isBetter) {
        best = selection.candidates.size();
        selection.chosen = *offer.choice;
        selection.microseconds = record.microseconds;
        selection.weight = weightLayoutOf(*family, region);
      }
    }
    selection.candidates.push_back(std::move(record));
  }
  if (best) {
    selection.candidates[*best].verdict = "chosen";
    llvm::erase_if(selection.candidates, [&](const dispatch::CandidateRecord &candidate) {
      return candidate.verdict == "refused" &&
             !holdsAny(region.source.getBody().front(), findFamily(candidate.kernel)->needs);
    });
    return selection;
  }
  InFlightDiagnostic diagnostic = region.source.emitError("no kernel family takes it");
  for (const dispatch::CandidateRecord &candidate : selection.candidates) {
    diagnostic << "; " << candidate.kernel << " " << candidate.verdict << ": " << candidate.why;
  }
  return diagnostic;
}

} // namespace tenon::codegen::cuda

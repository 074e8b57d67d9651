// Relies on dispatch recording regions in the order of their numbers.
#include "compiler/pipeline/SelectKernels.h"

#include "compiler/codegen/common/RegionSource.h"
#include "compiler/dispatch/Names.h"
#include "support/NearestName.h"
#include "support/Text.h"
#include "llvm/ADT/StringMap.h"

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

Status selectKernels(ModuleOp module, const CodeTarget &target, WantedKernels &wanted,
                     dispatch::Records &records) {
  llvm::StringMap<dispatch::KernelSelection> known;
  Status status;
  module.walk([&](tn::RegionOp region) {
    const dispatch::KernelChoice *kernel = wanted.find(dispatch::nodeNames(region.getLoc()));
    std::string text = codegen::outline(region).text;
    std::string key = strCat(text, kernel ? kernel->text() : "");
    auto found = known.find(key);
    if (found == known.end()) {
      llvm::Expected<dispatch::KernelSelection> selection =
          target.select(text, {kernel, wanted.disabled()});
      if (!selection) {
        status = Status::error(
            wanted.areAny() ? ErrorId::BadArgument : ErrorId::CodegenFailed,
            strCat("no kernel for ", dispatch::nameOf(region), " on ", target.level, ": ",
                   llvm::toString(selection.takeError())),
            std::string(wanted.areAny() ? kListed : "report this with the reproducer"));
        return WalkResult::interrupt();
      }
      found = known.try_emplace(key, std::move(*selection)).first;
    }
    const dispatch::KernelSelection &selection = found->second;
    region->setAttr(codegen::kKernelAttribute, selection.chosen.toAttribute(module.getContext()));
    if (std::optional<uint64_t> number = region.getReason()) {
      dispatch::RegionRecord &record = records.regions[*number];
      record.kernel = selection.chosen.text();
      record.candidates = selection.candidates;
    }
    return WalkResult::advance();
  });
  return status;
}

} // namespace tenon::pipeline

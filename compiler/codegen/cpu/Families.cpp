// The table of CPU kernel families, and the one place that chooses among them: by predicted times.
// Relies on the order of rows where those are close.
#include "compiler/codegen/common/lower/ElementFn.h"
#include "compiler/codegen/common/math/RecurrentCell.h"
#include "compiler/codegen/common/region/FamilyScope.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cpu/KernelFamily.h"
#include "compiler/codegen/cpu/conv/ConvTiles.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/OpKinds.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Tn.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

std::optional<dispatch::WeightLayout> weightOfLoops(func::FuncOp source) {
  auto convs = source.getOps<tn::ConvOp>();
  if (convs.empty()) {
    return std::nullopt;
  }
  return dispatch::isDepthwise(*convs.begin()) ? layoutOfDepthwise(*convs.begin())
                                               : panelsOfWeight(source);
}

/// The predictions for convolutions of one kind are nearer to each other than those of others.
constexpr double kAlsoConvolutions = 0.95;
/// Those of F(4 x 4) take 2.25 times the memory of those of F(2 x 2).
constexpr double kLargerWeights = 0.85;

/// What loops over the depth of each element take of a product's time (3 to 120 times on a Zen 4).
constexpr double kOfLoops = 40;
/// Those of a depthwise convolution, whose loops have vectors of channels.
constexpr double kOfDepthwiseLoops = 4;

/// Seconds that contractions take longer which do `times` their operations.
double extraWork(func::FuncOp source, const dispatch::CostModel &costs,
                 const target::Target &target, llvm::function_ref<double(Operation &)> times) {
  double extra = 0;
  for (Operation &op : source.getBody().front().without_terminator()) {
    if (op.hasTrait<tn::TnContraction>()) {
      extra += (times(op) - 1) * costs.workOf(&op);
    }
  }
  return extra / target.peak;
}

bool isDepthwise(Operation &op) {
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
  return conv && dispatch::isDepthwise(conv);
}

double extraOfLoops(func::FuncOp source, const dispatch::CostModel &costs,
                    const target::Target &target) {
  return extraWork(source, costs, target,
                   [](Operation &op) { return isDepthwise(op) ? kOfDepthwiseLoops : kOfLoops; });
}

/// Groups are padded to whole panels.
double extraOfPanels(func::FuncOp source, const dispatch::CostModel &costs,
                     const target::Target &target) {
  return extraWork(source, costs, target, [](Operation &op) {
    tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
    if (!conv || !canLowerConv(conv)) {
      return 1.0;
    }
    Geometry g = geometryOf(conv);
    return double(g.panelsPerGroup() * kPanel) / double(g.groupOutChannels());
  });
}

/// A single group is padded to whole vectors.
double extraOfGroups(func::FuncOp source, const dispatch::CostModel &costs,
                     const target::Target &target) {
  return extraWork(source, costs, target, [](Operation &op) {
    tn::ConvOp conv = cast<tn::ConvOp>(op);
    double channels = conv.getGroups() == 1 ? double(geometryOf(conv).outChannels) : 16;
    return (channels <= 8 ? 8 : 16) / channels;
  });
}

constexpr KernelFamily kFamilies[] = {
    {.name = "conv_grouped",
     .what = "direct convolution by groups, depthwise too: vectors of output channels, the sums of "
             "neighbouring pixels in registers",
     .strategies = {dispatch::kContraction, dispatch::kDepthwise},
     .needs = {"conv"},
     .refuse = refuseGrouped,
     .parameter = "tile_rows",
     // The sums of 128 x 32 are half of the smallest L1 cache in use.
     .values = {128, 64, 32, 16},
     .isTunable = [](func::FuncOp) { return true; },
     .weightLayout = groupedWeight,
     .extraSeconds = extraOfGroups,
     .lower = lowerGrouped},
    {.name = "gemm_packed",
     .what = "GEMM and implicit GEMM on packed weights: a register-blocked micro-kernel, the "
             "epilogue on its tile",
     .strategies = {dispatch::kContraction},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isPackedProduct(source) ? ""
                                      : "a product of 64-bit elements, or a convolution with "
                                        "channels first, of a weight "
                                        "whose sizes vary, or not of f32";
     },
     .parameter = "tile_rows",
     // The sums of 128 x 32 are half of the smallest L1 cache in use.
     .values = {128, 64, 32, 16},
     .isTunable = [](func::FuncOp) { return true; },
     .weightLayout = panelsOfWeight,
     .extraSeconds = extraOfPanels,
     .lower = lowerContraction},
    {.name = "conv_winograd2",
     .what = "Winograd F(2 x 2, 3 x 3): transformed tiles, a product for each point, their sums "
             "transformed before the epilogue",
     .strategies = {dispatch::kContraction},
     .needs = {"conv"},
     .refuse = [](func::FuncOp source) { return refuseWinograd(source, 2); },
     .parameter = "tiles",
     .values = {28, 14, 56, 112},
     .isTunable = [](func::FuncOp) { return true; },
     .weightLayout = [](func::FuncOp source) { return winogradWeight(source, 2); },
     .extraSeconds = [](func::FuncOp source, const dispatch::CostModel &costs,
                        const target::Target &) { return -winogradSavings(source, 2, costs); },
     .switchMargin = kAlsoConvolutions,
     .lower = [](KernelBuilder &kernel, func::FuncOp source, engine::CpuLevel level,
                 int64_t most) { return lowerWinograd(kernel, source, level, 2, most); }},
    {.name = "conv_winograd4",
     .what = "Winograd F(4 x 4, 3 x 3): transformed tiles, a product for each point, their sums "
             "transformed before the epilogue",
     .strategies = {dispatch::kContraction},
     .needs = {"conv"},
     .refuse = [](func::FuncOp source) { return refuseWinograd(source, 4); },
     .parameter = "tiles",
     .values = {28, 14, 56, 112},
     .isTunable = [](func::FuncOp) { return true; },
     .weightLayout = [](func::FuncOp source) { return winogradWeight(source, 4); },
     .extraSeconds = [](func::FuncOp source, const dispatch::CostModel &costs,
                        const target::Target &) { return -winogradSavings(source, 4, costs); },
     .switchMargin = kLargerWeights,
     .lower = [](KernelBuilder &kernel, func::FuncOp source, engine::CpuLevel level,
                 int64_t most) { return lowerWinograd(kernel, source, level, 4, most); }},
    {.name = "attention_flash",
     .what = "attention by blocks of queries: softmax between two micro-kernel products",
     .strategies = {dispatch::kAttention},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isFlashAttention(source) ? "" : "heads of f64";
     },
     .parameter = "queries",
     // The scores of 64 queries against 1,000 keys are 256 KiB.
     .values = {64, 128, 32, 16},
     .isTunable = [](func::FuncOp) { return true; },
     .lower = lowerAttention},
    {.name = "conv_patches",
     .what = "convolution as a GEMM of copied patches (im2col by tiles), widened on the way",
     .strategies = {dispatch::kContraction},
     .needs = {"conv"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isPatchConv(source) ? ""
                                  : "no convolution of 16-bit floats or 32-bit integers, or one "
                                    "with channels first or depthwise";
     },
     .parameter = "tile_rows",
     .values = {64, 128, 32, 16},
     .isTunable = [](func::FuncOp) { return true; },
     .weightLayout = panelsOfWeight,
     .lower = lowerPatchConv},
    {.name = "scan",
     .what = "running sums: scans in registers along rows, or rows of columns added up",
     .strategies = {dispatch::kSingle},
     .needs = {"cumsum"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isScan(source) ? "" : "not a running sum";
     },
     .parameter = "columns",
     // Some cache lines of each row, whose sums stay in registers.
     .values = {128, 64, 256, 32},
     .isTunable = [](func::FuncOp) { return true; },
     .takesReshaped = true,
     .lower = lowerScan},
    {.name = "recurrence",
     .what =
         "recurrent layers: rows of the batch through all steps, a product and the gates in each",
     .strategies = {dispatch::kSingle},
     .needs = {"recurrence"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return recurrenceOf(source) ? "" : "not a recurrent layer";
     },
     .parameter = "rows",
     .values = {1, 1, 1, 1},
     .isTunable = [](func::FuncOp) { return false; },
     .weightLayout = recurrentWeight,
     .lower = lowerRecurrence},
    {.name = "topk_vectors",
     .what =
         "the few largest of rows: vectors that stay sorted, into which larger keys are shifted",
     .strategies = {dispatch::kSingle},
     .needs = {"top_k"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isVectorTopK(source) ? "" : "no selection of 1 to 64 elements of at most 32 bits";
     },
     .parameter = "rows",
     .values = {1, 1, 1, 1},
     .isTunable = [](func::FuncOp) { return false; },
     .lower = lowerVectorTopK},
    {.name = "sort_radix",
     .what = "much of each row in order: a radix sort of keys and places",
     .strategies = {dispatch::kSingle},
     .needs = {"top_k"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isSort(source) ? "" : "no selection of much of rows with elements of at most 32 bits";
     },
     .parameter = "rows",
     .values = {1, 1, 1, 1},
     .isTunable = [](func::FuncOp) { return false; },
     .lower = lowerSort},
    {.name = "topk_heap",
     .what =
         "the k largest of rows: a heap, changed only where a vector has one that stands before "
         "its top",
     .strategies = {dispatch::kSingle},
     .needs = {"top_k"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isTopK(source) ? "" : "not a selection of the largest";
     },
     .parameter = "rows",
     .values = {1, 1, 1, 1},
     .isTunable = [](func::FuncOp) { return false; },
     .lower = lowerTopK},
    {.name = "concat_copy",
     .what = "concatenation as copies of blocks",
     .strategies = {dispatch::kSingle},
     .needs = {"concat"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isConcat(source) ? "" : "not a concatenation of buffers";
     },
     .parameter = "rows",
     .values = {1, 1, 1, 1},
     .isTunable = [](func::FuncOp) { return false; },
     .lower = lowerConcat},
    {.name = "softmax_columns",
     .what = "softmax across rows with running maxima: columns side by side, read twice",
     .strategies = {dispatch::kRows, dispatch::kSingle},
     .needs = {"softmax"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isColumnSoftmax(source) ? "" : "not a lone softmax along a dim that is not the last";
     },
     .parameter = "columns",
     // 2 KiB of each row, which memory streams; maxima and sums of them stay in the L1 cache.
     .values = {512, 256, 1024, 128},
     .isTunable = [](func::FuncOp) { return true; },
     .lower = lowerColumnSoftmax},
    {.name = "resize_rows",
     .what = "separable resampling: rows added up, then the taps of each column",
     .strategies = {dispatch::kSingle},
     .needs = {"resize"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isRowResize(source) ? "" : "not a linear or cubic resize of the last two dims";
     },
     .parameter = "rows",
     .values = {1, 1, 1, 1},
     .isTunable = [](func::FuncOp) { return false; },
     .lower = lowerResize},
    {.name = "scatter_owned",
     .what = "scatters: each grid point owns a part of the result and takes its updates in order",
     .strategies = {dispatch::kSingle},
     .needs = {"scatter"},
     .refuse = [](func::FuncOp source) -> StringRef {
       return isOwnedScatter(source) ? "" : "not a scatter over all rows of its data";
     },
     .parameter = "rows",
     .values = {1, 1, 1, 1},
     .isTunable = [](func::FuncOp) { return false; },
     .lower = lowerScatter},
    {.name = "tiled",
     .what = "fused vector loops over tiles of the grid: pointwise, rows, depthwise convolution, "
             "all else",
     .strategies = {dispatch::kElementwise, dispatch::kRows, dispatch::kDepthwise,
                    dispatch::kSingle, dispatch::kContraction, dispatch::kAttention},
     .refuse = [](func::FuncOp) -> StringRef { return ""; },
     .parameter = "chunk",
     .values = {4096, 1024, 16384, 65536},
     .isTunable = isChunked,
     .weightLayout = weightOfLoops,
     .extraSeconds = extraOfLoops,
     .takesReshaped = true,
     .lower = lowerTiled},
};

/// Whether a buffer of the region has no elements: it cannot be seen as rows.
bool hasEmptyBuffer(func::FuncOp source) {
  return llvm::any_of(source.getArguments(), isEmpty) ||
         llvm::any_of(source.getBody().front().getTerminator()->getOperands(), isEmpty);
}

/// A region in a context of its own.
class ParsedRegion {
public:
  explicit ParsedRegion(StringRef text) : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<tn::TnDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    function = module ? module->lookupSymbol<func::FuncOp>("kernel") : func::FuncOp();
    strategy = function ? function->getAttrOfType<StringAttr>("tn.strategy") : StringAttr();
  }
  llvm::Error error() const {
    return strategy ? llvm::Error::success()
                    : llvm::createStringError("region text does not parse or has no strategy");
  }
  /// Whether it is of a kind that the family computes at all.
  bool concerns(const KernelFamily &family) const {
    func::FuncOp source = function;
    Block &body = source.getBody().front();
    // A product may have another strategy because no family of products takes it.
    bool isProduct =
        llvm::any_of(body, [](Operation &op) { return op.hasTrait<tn::TnContraction>(); });
    bool isServed = llvm::is_contained(family.strategies, strategy.getValue()) ||
                    (isProduct && llvm::is_contained(family.strategies, dispatch::kContraction));
    return isServed && holdsAny(body, family.needs);
  }
  /// Why a family does not compute it; empty if it does.
  StringRef refusal(const KernelFamily &family) const {
    if (!llvm::is_contained(family.strategies, strategy.getValue())) {
      StringRef why = concerns(family) ? family.refuse(function) : StringRef();
      return why.empty() ? "it computes regions of other strategies" : why;
    }
    bool isLoops = family.name == "tiled";
    return !isLoops && hasEmptyBuffer(function) ? "a buffer has no elements"
                                                : family.refuse(function);
  }

  func::FuncOp function;

private:
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  StringAttr strategy;
};

/// Predicted microseconds.
double costOf(func::FuncOp source, const KernelFamily &family, const target::Target &target) {
  Block &body = source.getBody().front();
  dispatch::Cost cost = dispatch::costOfRegion(body, target, /*isGenerated=*/true);
  dispatch::CostModel costs(source->getParentOfType<ModuleOp>(), target);
  double extra = family.extraSeconds ? family.extraSeconds(source, costs, target) : 0;
  return cost.microseconds + extra * 1e6;
}

dispatch::KernelChoice choiceOf(const KernelFamily &family, int64_t value) {
  return {family.name.str(), {{family.parameter.str(), {value}}}};
}

/// What the user asks for with the family's own value where none is given; an error if it is no
/// configuration.
llvm::Expected<dispatch::KernelChoice> adjusted(const KernelFamily &family,
                                                const dispatch::KernelChoice &wanted) {
  if (wanted.parameters.empty()) {
    return choiceOf(family, family.values.front());
  }
  for (int64_t value : family.values) {
    if (wanted == choiceOf(family, value)) {
      return wanted;
    }
  }
  return llvm::createStringError("'" + wanted.text() + "' is not a configuration; it has " +
                                 choiceOf(family, family.values.front()).text() + " and others");
}

} // namespace

std::optional<dispatch::WeightLayout> weightLayoutOf(const KernelFamily &family,
                                                     func::FuncOp source) {
  return family.weightLayout ? family.weightLayout(source) : std::nullopt;
}

const KernelFamily *findFamily(StringRef name) {
  const KernelFamily *found =
      llvm::find_if(kFamilies, [&](const KernelFamily &family) { return family.name == name; });
  return found == std::end(kFamilies) ? nullptr : found;
}

std::vector<std::string> familyNames() {
  std::vector<std::string> names;
  for (const KernelFamily &family : kFamilies) {
    names.push_back(family.name.str());
  }
  return names;
}

llvm::Expected<dispatch::KernelSelection> selectKernel(StringRef text, const target::Target &target,
                                                       const dispatch::KernelRequest &request) {
  ParsedRegion region(text);
  if (llvm::Error error = region.error()) {
    return std::move(error);
  }
  dispatch::KernelSelection selection;
  std::optional<size_t> best;
  std::string answers;
  for (const KernelFamily &family : kFamilies) {
    StringRef refusal = region.refusal(family);
    dispatch::CandidateRecord record{family.name.str(), "refused", refusal.str(), 0};
    if (refusal.empty()) {
      bool isDisabled = llvm::is_contained(request.disabled, family.name);
      bool isWanted = !request.wanted || request.wanted->family == family.name;
      dispatch::KernelChoice choice = choiceOf(family, family.values.front());
      if (isWanted && request.wanted) {
        llvm::Expected<dispatch::KernelChoice> asked = adjusted(family, *request.wanted);
        if (!asked) {
          return asked.takeError();
        }
        choice = *asked;
      }
      double microseconds = costOf(region.function, family, target);
      record = {choice.text(), isDisabled ? "disabled" : "possible", family.what.str(),
                microseconds};
      bool isBetter =
          !best || microseconds < family.switchMargin * selection.candidates[*best].microseconds;
      if (!isDisabled && isWanted && isBetter) {
        best = selection.candidates.size();
        selection.chosen = choice;
        selection.microseconds = microseconds;
        selection.weight = weightLayoutOf(family, region.function);
      }
    }
    answers += "; " + record.kernel + " " + record.verdict + ": " + record.why;
    if (refusal.empty() || region.concerns(family)) {
      selection.candidates.push_back(std::move(record));
    }
  }
  if (best) {
    selection.candidates[*best].verdict = "chosen";
    return selection;
  }
  return llvm::createStringError("no kernel family takes it" + answers);
}

llvm::Expected<std::vector<dispatch::KernelCandidate>>
kernelCandidates(StringRef text, const target::Target &target) {
  ParsedRegion region(text);
  if (llvm::Error error = region.error()) {
    return std::move(error);
  }
  std::vector<dispatch::KernelCandidate> candidates;
  for (const KernelFamily &family : kFamilies) {
    if (!region.refusal(family).empty()) {
      continue;
    }
    size_t count = family.isTunable(region.function) ? family.values.size() : 1;
    for (int64_t value : ArrayRef(family.values).take_front(count)) {
      dispatch::KernelChoice choice = choiceOf(family, value);
      double microseconds = costOf(region.function, family, target);
      candidates.push_back(
          {std::move(choice), microseconds, weightLayoutOf(family, region.function)});
    }
  }
  return candidates;
}

} // namespace tenon::codegen::cpu

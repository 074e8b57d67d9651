// The order in which the passes run, with the reason for each place.
// Relies on every pass keeping the module valid on its own, so that it can be checked after each.
#include "compiler/opt/Float8Products.h"
#include "compiler/opt/GpuProducts.h"
#include "compiler/opt/Passes.h"
#include "compiler/target/Float8.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr Pass kSimplify = {"simplify", simplify};

/// The passes in order. `simplify` stands wherever the next pass wants a clean graph.
const Pass kOrder[] = {
    // Names what exporters write with constants and chains of movement; everything else matches on
    // that.
    kSimplify,
    // Before anything looks at a product and its bias: reshapes of [batch * sequence, n] stand
    // between.
    {"hoist-reshapes", hoistReshapes},
    kSimplify,
    // Needs the convolution and its normalization side by side and in the model's own layout.
    {"fold-batch-norm", foldBatchNorm},
    // Behind that, which puts what it multiplies and adds into the weights; before transposes move.
    {"drop-unit-dims", dropUnitDims},
    // After the bias is known as a constant; before transposes move away from the slices that it
    // removes.
    {"split-products", splitProducts},
    // Before attention, which wants the transposes of the heads directly at its operands.
    {"sink-transposes", sinkTransposes},
    kSimplify,
    // Before the activations: a sigmoid in a softmax or a norm would hide these.
    {"recognize-softmax", recognizeSoftmax},
    {"recognize-norm", recognizeNorm},
    {"recognize-gelu", recognizeGelu},
    {"recognize-silu", recognizeSilu},
    // After softmax; before transposes of K are folded into the product.
    {"recognize-attention", recognizeAttention},
    {"fold-transposes", foldTransposes},
    // Before channels-last, whose transposes meet those of the convolutions that this makes.
    {"transposed-convs", transposedConvs},
    // After all patterns that are stated in the models' layout.
    {"channels-last", channelsLast},
    kSimplify,
};

/// The passes for a GPU, after those.
const Pass kGpuOrder[] = {
    // First: what follows folds weights behind scales.
    {"integer-products-of-gpu", integerProductsOfGpu},
    // What that left: quantization is not expanded yet, and weights are not folded.
    {"note-wide-products-of-gpu", noteWideProductsOfGpu},
    {"low-bit-weights-of-gpu", lowBitWeightsOfGpu},
    // Then this: transposes around convolutions meet where no quantization stands between.
    {"expand-quantize", expandQuantize},
    // Behind that, whose transposes may end where a norm begins.
    {"split-group-norms", splitGroupNorms},
    {"expand-attention", expandAttention},
    // Rotary embedding reads and writes heads as the projections give them.
    {"sink-reshapes", sinkReshapes},
    // Before the merge: these products may share an operand.
    {"convs-to-products", convsToProducts},
    {"merge-products", mergeProducts},
    {"fit-convs", fitConvs},
    // Late: patterns that evaluate constants would take its casts away.
    {"narrow-integer-products", narrowIntegerProducts},
    // Behind that, whose operands it moves too.
    {"fit-products", fitProducts},
};

/// The passes for a CPU, after those, integer-products, which matches on quantization as such and
/// leaves weights that constants can be, and widen-products.
const Pass kCpuOrder[] = {
    // First: behind that, which moves quantization to where chains of it begin and end.
    {"tabulate-chains", tabulateChains},
    // What that left: quantization is not expanded yet.
    {"note-wide-products", noteWideProducts},
    // Behind integer-products, which multiplies weights as integers where both operands are
    // quantized.
    {"low-bit-weights", lowBitWeights},
    // It leaves elementwise operations, which the others look through.
    {"expand-all-quantize", expandAllQuantize},
    {"fill-words", padChannelsToVnni},
    {"dot-products", dotProducts},
    // Behind that, which makes reductions.
    {"split-reductions", splitReductions},
    // Last: patterns look at constants.
    {"share-parameters", shareParameters},
};

/// By name, for tools and tests: on a Hopper GPU, all that may.
LogicalResult float8OnHopper(ModuleOp module, tn::WeightStore &weights) {
  PrecisionRecord record;
  return float8Products(module, weights, target::float8Target(),
                        {.quantizes = true, .isAlways = true}, record);
}

/// By name, for tools and tests.
LogicalResult allowedRoundActivations(ModuleOp module, tn::WeightStore &) {
  PrecisionRecord record;
  roundActivations(module, record);
  return success();
}

const Pass kAll[] = {
    kSimplify,
    {"fold-constants", foldConstants},
    {"hoist-reshapes", hoistReshapes},
    {"fold-batch-norm", foldBatchNorm},
    {"drop-unit-dims", dropUnitDims},
    {"split-products", splitProducts},
    {"sink-transposes", sinkTransposes},
    {"recognize-softmax", recognizeSoftmax},
    {"recognize-norm", recognizeNorm},
    {"recognize-gelu", recognizeGelu},
    {"recognize-silu", recognizeSilu},
    {"recognize-attention", recognizeAttention},
    {"fold-transposes", foldTransposes},
    {"transposed-convs", transposedConvs},
    {"channels-last", channelsLast},
    {"expand-attention", expandAttention},
    {"sink-reshapes", sinkReshapes},
    {"convs-to-products", convsToProducts},
    {"merge-products", mergeProducts},
    {"fit-convs", fitConvs},
    {"fill-words", padChannelsToVnni},
    {"expand-quantize", expandQuantize},
    {"expand-all-quantize", expandAllQuantize},
    {"integer-products", integerProducts},
    {"share-parameters", shareParameters},
    {"tabulate-chains", tabulateChains},
    {"note-wide-products", noteWideProducts},
    {"low-bit-weights", lowBitWeights},
    {"round-activations", allowedRoundActivations},
    {"narrow-integer-products", narrowIntegerProducts},
    {"fit-products", fitProducts},
    {"dot-products", dotProducts},
    {"split-reductions", splitReductions},
    {"convert-to-fp16", convertToFp16},
    {"convert-to-bf16", convertToBf16},
    {"float8-products", float8OnHopper},
    {"low-bit-weights-of-gpu", lowBitWeightsOfGpu},
    {"integer-products-of-gpu", integerProductsOfGpu},
    {"note-wide-products-of-gpu", noteWideProductsOfGpu},
    {"split-group-norms", splitGroupNorms},
};

/// What stands behind every pass.
LogicalResult finishPass(StringRef name, ModuleOp module, const OptimizeOptions &options) {
  if (failed(verify(module))) {
    return module.emitError() << "internal: pass " << name << " left an invalid graph";
  }
  return options.afterPass ? options.afterPass(name, module) : success();
}

LogicalResult runPass(const Pass &pass, ModuleOp module, tn::WeightStore &weights,
                      const OptimizeOptions &options) {
  return failed(pass.run(module, weights)) ? failure() : finishPass(pass.name, module, options);
}

} // namespace

ArrayRef<Pass> allPasses() { return kAll; }

static LogicalResult runAll(ArrayRef<Pass> passes, ModuleOp module, tn::WeightStore &weights,
                            const OptimizeOptions &options) {
  for (const Pass &pass : passes) {
    if (failed(runPass(pass, module, weights, options))) {
      return failure();
    }
  }
  return success();
}

LogicalResult optimize(ModuleOp module, tn::WeightStore &weights, const OptimizeOptions &options) {
  return success(succeeded(runAll(kOrder, module, weights, options)) &&
                 succeeded(runAll(options.extraPasses, module, weights, options)));
}

LogicalResult optimizeForGpu(ModuleOp module, tn::WeightStore &weights,
                             const OptimizeOptions &options) {
  return runAll(kGpuOrder, module, weights, options);
}

LogicalResult optimizeForCpu(ModuleOp module, tn::WeightStore &weights,
                             const OptimizeOptions &options) {
  return success(succeeded(integerProducts(module, weights, options.price)) &&
                 succeeded(finishPass("integer-products", module, options)) &&
                 succeeded(widenProducts(module, weights, options.price)) &&
                 succeeded(finishPass("widen-products", module, options)) &&
                 succeeded(runAll(kCpuOrder, module, weights, options)));
}

} // namespace tenon::opt

// What a kernel family is (docs/adr/0015): kernels that people know by one name, with everything
// that decides about them and the code that emits them. A family is a row of Families.cpp.
#pragma once

#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/dispatch/KernelChoice.h"

#include <array>
#include <vector>

namespace tenon::codegen::cuda {

/// A family's answer about a region: the configuration that it would take, or why it does not
/// compute such a region or should not.
struct Offer {
  std::optional<dispatch::KernelChoice> choice;
  std::string why;

  static Offer refuse(llvm::Twine why) { return {std::nullopt, why.str()}; }
};

/// Functions are pure but for the steps and kernels that `emit` adds to the region, and leave no
/// diagnostic unless they fail.
struct KernelFamily {
  llvm::StringLiteral name;
  /// What it is in the field's words, for people.
  llvm::StringLiteral what;
  /// The strategies whose regions it is asked about; none for all.
  std::array<llvm::StringRef, 2> strategies;
  /// The beginnings of the operations without which it never computes a region; none for any.
  std::array<llvm::StringRef, 2> needs = {};
  Offer (*match)(RegionBuilder &region);
  /// All configurations that it can be compiled with, for a region that it offers to take; null if
  /// there is but the one that it offers.
  std::vector<dispatch::KernelChoice> (*configs)(RegionBuilder &region);
  /// Predicted seconds from the end of the kernel before to its own, for one of its configurations;
  /// null if bytes and operations by the target's rates say enough.
  double (*cost)(RegionBuilder &region, const dispatch::KernelChoice &choice);
  /// How the region's constant weight must be laid out for it; none if it lies so already. Null if
  /// the family reads all inputs as they lie.
  std::optional<dispatch::WeightLayout> (*weightLayout)(RegionBuilder &region) = nullptr;
  /// Adds the region's steps. Fails after a diagnostic, also for a choice that is not one of its
  /// configurations.
  mlir::LogicalResult (*emit)(RegionBuilder &region, const dispatch::KernelChoice &choice);
  /// Where a row count varies, rows at most of its kernels for few of them, and rows from which on
  /// it is worth a kernel of its own; none for most families.
  std::array<int64_t, 4> fewRows = {};
  int64_t (*manyRows)(RegionBuilder &region) = nullptr;
  /// Whether it is a library's call, or may have one among its steps.
  bool isCall = false, mayCall = false;
};

/// In the order in which they are preferred where predictions are close.
llvm::ArrayRef<const KernelFamily *> kernelFamilies();
/// Null if there is none of that name.
const KernelFamily *findFamily(llvm::StringRef name);

/// How the family wants the region's weight to be laid out; none if it lies as wanted.
std::optional<dispatch::WeightLayout> weightLayoutOf(const KernelFamily &family,
                                                     RegionBuilder &region);

/// Asks every family that serves the region's strategy. Fails after a diagnostic if none takes it,
/// or not as requested.
mlir::FailureOr<dispatch::KernelSelection> selectKernel(RegionBuilder &region,
                                                        const dispatch::KernelRequest &request);
/// Predicted microseconds from the end of the kernel before to its own.
double costOf(const KernelFamily &family, RegionBuilder &region,
              const dispatch::KernelChoice &choice);
/// What is added to the predicted seconds of a product's kernel: what is read behind the product,
/// and the arithmetic there, which no stream of operands hides. SiLU of 393,216 and 2,097,152
/// elements took 0.24 and 0.87 us on an H200.
double epilogueSeconds(RegionBuilder &region);
/// Every configuration of every family that offers to take the region.
std::vector<dispatch::KernelCandidate> kernelCandidates(RegionBuilder &region);
/// The configurations of a family for a region that it offers to take.
std::vector<dispatch::KernelChoice> configsOf(const KernelFamily &family, RegionBuilder &region);

/// Reads the choice into the configuration that the family would take by itself; fails after a
/// diagnostic.
template <typename Config>
mlir::LogicalResult readChoice(RegionBuilder &region, const dispatch::KernelChoice &choice,
                               Config &config) {
  llvm::Error error = dispatch::readParameters(choice, config);
  if (!error) {
    return mlir::success();
  }
  return region.source.emitError(llvm::toString(std::move(error)));
}

// gemm/
extern const KernelFamily kGemmBuckets, kGemmBucketsGenerated, kGemv, kGemmSkinny, kGemmPersistent,
    kGemmTensorCore, kGemmSimt;
// conv/
extern const KernelFamily kConvTensorCore, kConvSimt, kConvDepthwise;
// attention/
extern const KernelFamily kAttentionStream, kAttentionFlash, kAttentionSimt;
// rows/
extern const KernelFamily kRowsStaged, kRowsInRegisters, kRowsInLoops, kColumnsTiled;
// pointwise/, selection/, scan/, scatter/, recurrent/
extern const KernelFamily kPointwise, kSelection, kTopK, kRadixSort, kPrefixScan, kScatter,
    kRecurrence;
// library/
extern const KernelFamily kCublasLt, kCudnnConv, kCudnnAttention;

} // namespace tenon::codegen::cuda

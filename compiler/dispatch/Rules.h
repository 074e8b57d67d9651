// The rules by which two neighbours stay apart, as `explain fusion` prints them. Names are stable;
// tests and users refer to them.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringRef.h"

#include <utility>

namespace tenon::dispatch {

struct Rule {
  llvm::StringLiteral name;
  llvm::StringLiteral why;
};

inline constexpr Rule kReshapeBetween = {
    "reshape-between",
    "a reshape lies between: it costs nothing, but a region has one index space"};
inline constexpr Rule kDimsDiffer = {"dims-differ", "the two have different dims"};
inline constexpr Rule kSecondResult = {
    "second-result",
    "the value between is also used elsewhere, and this strategy writes one result"};
inline constexpr Rule kCycle = {
    "cycle", "between the two stands another region that needs the first and feeds the second"};
inline constexpr Rule kTooFar = {
    "too-far", "more operations stand between the two than dispatch looks through"};
inline constexpr Rule kRegionFull = {"region-full", "the region has as many operations as it may"};
inline constexpr Rule kElementType = {
    "element-type", "a GPU's kernel of a product computes with floats behind it (behind one of "
                    "small integers, with "
                    "numbers of up to 32 bits), the other operation with another type"};
inline constexpr Rule kContractionReads = {
    "contraction-reads-often",
    "a contraction reads each operand element many times, so the producer is computed once before"};
inline constexpr Rule kTakesLonger = {
    "takes-longer",
    "the fastest kernel that computes both is predicted to take longer than two kernels"};
inline constexpr Rule kWidens = {
    "widens", "the first stores 8-bit numbers, which what reads them widens as well as this could"};
inline constexpr Rule kAddedInRows = {
    "added-in-rows",
    "the kernel of whole rows behind it, its only reader, adds a residual for less than the call"};
inline constexpr Rule kAttentionAlone = {"attention-alone", "attention is compiled alone"};
inline constexpr Rule kCompiledAlone = {"compiled-alone",
                                        "one of the two has no strategy that fuses"};
inline constexpr Rule kTileHasNoRow = {
    "tile-has-no-row",
    "a tile of the contraction holds part of a row, the consumer needs whole rows"};
inline constexpr Rule kRowTooLarge = {
    "row-too-large",
    "the rows of all values of the region would not fit in the second-level cache"};
inline constexpr Rule kMovementReadsInputs = {
    "movement-reads-inputs", "a movement operation in a region reads the region's inputs only"};
inline constexpr Rule kRecompute = {
    "computed-too-often",
    "a value is read at so many places that computing it at each costs more than storing it"};
inline constexpr Rule kRegisters = {
    "registers", "as one kernel a thread would hold more values than its registers are worth"};
inline constexpr Rule kNotElementwise = {
    "not-elementwise", "only elementwise operations join the region of the other"};
inline constexpr Rule kOtherRegion = {
    "other-region", "the one joined another neighbour first, and a region has one root"};

/// Why an edge was not fused when it was tried; where times decided, those of both ways in
/// microseconds.
struct Refusal {
  Refusal() = default;
  Refusal(const Rule &refusing) : rule(&refusing) {}
  Refusal(const Rule &refusing, double asOne, double asTwo)
      : rule(&refusing), fused(asOne), apart(asTwo) {}

  const Rule *rule = nullptr;
  double fused = 0, apart = 0;
};

/// Of edges (producer, consumer).
using Refusals = llvm::DenseMap<std::pair<mlir::Operation *, mlir::Operation *>, Refusal>;

} // namespace tenon::dispatch

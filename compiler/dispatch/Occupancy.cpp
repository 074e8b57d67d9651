// Counts the values that a thread has alive at once in the order in which codegen computes them.
// Relies on ptxas keeping that order roughly: test/gpu/registers.py holds the count against it.
#include "compiler/dispatch/Occupancy.h"

#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/ElementwiseLaunchConfig.h"
#include "compiler/dispatch/Grouping.h"
#include "compiler/dispatch/OpKinds.h"
#include "compiler/dispatch/RowReductionConfig.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Registers for places and pointers, and what ptxas takes for a word that is alive (measured with
/// ptxas 13.0 over 1 to 32 values of 4 to 32 elements).
constexpr double kOwnRegisters = 12, kOfWord = 1.1;
/// Words that ptxas loads ahead of their use, where that costs nothing; of rows also where the
/// layout leaves a thread so many registers.
constexpr double kAheadOfPoints = 22, kAheadOfRows = 48, kAheadOfFreeRows = 64;
constexpr int64_t kFreeRegisters = 128;
/// Bytes that a thread moves for a byte alive if the registers do not suffice: from 224 words of 16
/// bits and 250 of 32 on ptxas gives up and keeps most values in memory (6.8 to 7.3, which an H200
/// moved at 3.7 to 4.8 TB/s).
constexpr double kOfSpilledByte = 7;
constexpr int64_t kMaxRegisters = 255, kRegisterUnit = 8;

/// The threads of a kernel: elements of each, and how many a block has.
struct ThreadLayout {
  int64_t elements = 1;
  int64_t threads = 1;
  int64_t sharedBytes = 0;   ///< of rows that wait in shared memory, where they can be read again
  int64_t mostRegisters = 0; ///< that the layout leaves to a thread of such rows
};

int64_t bitsOf(Value value) {
  Type element = getElementTypeOrSelf(value);
  return element.isIntOrFloat() ? std::max(8u, element.getIntOrFloatBitWidth()) : 8;
}

/// The operations of one kernel, and what it reads and writes.
class KernelInfo {
public:
  KernelInfo(ArrayRef<Operation *> operations, const CostModel &costModel);

  /// Whether the model knows how codegen lays the kernel out.
  bool isKnown() const { return known; }
  ThreadLayout layout() const { return root ? layoutOfRows() : layoutOfPoints(); }
  /// Registers that a thread of such a layout wants.
  int64_t registers(const ThreadLayout &layout) const;
  double wordsAlive(const ThreadLayout &layout) const;
  /// Bytes that a thread reads for an element.
  int64_t bytesRead() const;
  int64_t count() const { return costs.countOf(dims); }

private:
  ThreadLayout layoutOfPoints() const;
  RowInfo rowInfo() const;
  ThreadLayout layoutOfRows() const;
  bool isWide(Value value) const { return tn::sameDims(tn::getDims(value.getType()), dims); }
  bool variesInRow(Value value) const;
  bool isInside(Value value) const { return llvm::is_contained(ops, value.getDefiningOp()); }

  friend class Liveness;
  ArrayRef<Operation *> ops;
  const CostModel &costs;
  SmallVector<Value> results, inputs;
  Operation *root = nullptr; ///< of rows
  size_t rowDims = 0;
  /// Of all elements.
  tn::Dims dims;
  bool known = false;
};

KernelInfo::KernelInfo(ArrayRef<Operation *> operations, const CostModel &costModel)
    : ops(operations), costs(costModel), results(escapingResults(ops)),
      inputs(outsideOperands(ops)) {
  llvm::erase_if(inputs, [](Value input) { return isScalarConstant(input.getDefiningOp()); });
  for (Operation *op : ops) {
    if (isElementwise(op) || isMovement(op, costs.profile())) {
      continue;
    }
    rowDims = rowRank(op, costs.profile());
    if (root || rowDims == 0) {
      return;
    }
    root = op;
  }
  if (results.empty()) {
    return;
  }
  dims = tn::getDims(root ? root->getOperand(0).getType() : results.front().getType());
  known =
      count() > 0 && (root || llvm::all_of(results, [&](Value result) { return isWide(result); }));
}

ThreadLayout KernelInfo::layoutOfPoints() const {
  ElementwiseInfo info;
  MLIRContext *context = ops.front()->getContext();
  info.count = tn::constantDim(tn::elementCount(context, dims));
  info.estimate = count();
  info.tensors = static_cast<int64_t>(results.size() + inputs.size());
  for (Value result : results) {
    info.widest = std::max(info.widest, bitsOf(result) / 8);
  }
  info.isFlat = llvm::all_of(ops, isElementwise) && llvm::all_of(inputs, [&](Value input) {
                  return isWide(input) || costs.countOf(tn::getDims(input.getType())) == 1;
                });
  info.along = info.isFlat && info.count ? info.count
               : dims.empty()            ? std::nullopt
                                         : tn::constantDim(dims.back());
  ElementwiseLaunchConfig config = elementwiseLaunchConfig(info);
  return {config.lanes * config.strips, config.threads};
}

RowInfo KernelInfo::rowInfo() const {
  RowInfo info;
  info.gpu = &costs.profile();
  info.length = costs.countOf(ArrayRef(dims).take_back(rowDims));
  info.rows = count() / *info.length;
  for (Value input : inputs) {
    if (isWide(input)) {
      info.inputs.push_back(bitsOf(input) / 8);
    } else {
      info.parameters += variesInRow(input);
    }
  }
  for (Value result : results) {
    if (isWide(result)) {
      info.results.push_back(bitsOf(result) / 8);
    }
  }
  return info;
}

/// Rows of unknown length are taken for rows of their guessed one.
ThreadLayout KernelInfo::layoutOfRows() const {
  RowInfo info = rowInfo();
  if (std::optional<RowReductionConfig> staged = layoutStaged(info)) {
    int64_t threads = staged->blockThreads() * std::max<int64_t>(staged->blocksPerSm, 1);
    return {staged->steps * staged->lanes, staged->blockThreads(),
            staged->sharedBytes + kReservedBytes,
            std::min(kMaxRegisters, costs.profile().registers / threads)};
  }
  if (std::optional<RowReductionConfig> layout = layoutInRegisters(info)) {
    return {layout->steps * layout->lanes, layout->blockThreads()};
  }
  constexpr int64_t kElementsInLoops = 16, kThreadsInLoops = 512;
  return {kElementsInLoops, kThreadsInLoops};
}

/// Whether the elements of a thread differ in `value`.
bool KernelInfo::variesInRow(Value value) const {
  tn::Dims own = tn::getDims(value.getType());
  return !own.empty() && !dims.empty() && tn::sameDim(own.back(), dims.back()) &&
         tn::constantDim(own.back()) != 1;
}

int64_t KernelInfo::bytesRead() const {
  int64_t bytes = 0;
  for (Value input : inputs) {
    bytes += isWide(input) ? bitsOf(input) / 8 : 0;
  }
  return bytes;
}

/// Computes values in the order of codegen: of each result first what it reads.
class Liveness {
public:
  Liveness(const KernelInfo &kernelInfo, const ThreadLayout &kernelLayout)
      : info(kernelInfo), layout(kernelLayout) {}

  double run();

private:
  void compute(Value value);
  void computeOp(Operation *op);
  void release(Value value);
  void start(Value value);
  double wordsOf(Value value) const;

  const KernelInfo &info;
  ThreadLayout layout;
  llvm::DenseMap<Value, size_t> readers; ///< that are still to come
  llvm::DenseSet<Value> seen, held;
  double alive = 0, most = 0, loaded = 0;
};

double Liveness::wordsOf(Value value) const {
  double words = static_cast<double>(bitsOf(value)) / 32;
  bool isRow = info.root && value == info.root->getOperand(0);
  return info.variesInRow(value) ? layout.elements * (isRow ? std::max(words, 1.0) : words)
                                 : std::ceil(words);
}

void Liveness::start(Value value) {
  held.insert(value);
  alive += wordsOf(value);
  most = std::max(most, alive);
}

void Liveness::release(Value value) {
  size_t &left = readers[value];
  if (left > 0 && --left == 0 && held.erase(value)) {
    alive -= wordsOf(value);
  }
}

void Liveness::compute(Value value) {
  if (!seen.insert(value).second) {
    return;
  }
  if (info.isInside(value)) {
    return computeOp(value.getDefiningOp());
  }
  loaded += wordsOf(value);
  start(value);
}

/// A result takes the registers of an operand that ends here.
void Liveness::computeOp(Operation *op) {
  bool moves = isMovement(op, info.costs.profile());
  for (Value operand : op->getOperands()) {
    // What a movement or a norm's scale reads is a result, or part of one, as soon as it is there.
    bool isAtOnce = moves || op == info.root;
    if (!isAtOnce || info.isInside(operand)) {
      compute(operand);
    } else if (!moves && !seen.contains(operand)) {
      loaded += wordsOf(operand);
    }
  }
  llvm::SmallDenseSet<Value> ended(op->operand_begin(), op->operand_end());
  for (Value operand : op->getOperands()) {
    if (ended.erase(operand)) {
      release(operand);
    }
  }
  for (Value result : op->getResults()) {
    seen.insert(result);
    loaded += moves ? wordsOf(result) : 0;
    if (readers[result] > 0) {
      start(result);
    }
  }
}

double Liveness::run() {
  for (Operation *op : info.ops) {
    llvm::SmallDenseSet<Value> own(op->operand_begin(), op->operand_end());
    for (Value operand : own) {
      ++readers[operand];
    }
  }
  if (info.root) {
    compute(info.root->getOperand(0));
    // Stores stand behind the reductions' barriers: what is a result before them waits for those.
    for (Value result : info.results) {
      readers[result] += seen.contains(result);
    }
    computeOp(info.root);
  }
  for (Value result : info.results) {
    compute(result);
  }
  double ofRows = layout.mostRegisters < kFreeRegisters ? kAheadOfRows : kAheadOfFreeRows;
  return std::max(most, std::min(loaded, info.root ? ofRows : kAheadOfPoints));
}

double KernelInfo::wordsAlive(const ThreadLayout &layout) const {
  return Liveness(*this, layout).run();
}

int64_t KernelInfo::registers(const ThreadLayout &layout) const {
  return static_cast<int64_t>(kOwnRegisters + kOfWord * wordsAlive(layout));
}

} // namespace

Occupancy occupancyOf(ArrayRef<Operation *> ops, const CostModel &costs) {
  const target::Target &device = costs.profile();
  KernelInfo info(ops, costs);
  if (!device.isGpu() || !info.isKnown()) {
    return {};
  }
  ThreadLayout layout = info.layout();
  Occupancy occupancy;
  occupancy.registers = info.registers(layout);
  if (layout.sharedBytes > 0) {
    occupancy.registers = std::min(occupancy.registers, layout.mostRegisters);
  }
  int64_t limit = std::min(kMaxRegisters, device.registers / layout.threads);
  if (occupancy.registers > limit && layout.sharedBytes == 0) {
    occupancy.spilled = kOfSpilledByte * 4 * info.wordsAlive(layout) * info.count() /
                        static_cast<double>(layout.elements);
  }
  int64_t taken = llvm::alignTo(std::min(occupancy.registers, limit), kRegisterUnit);
  int64_t blocks = std::min({device.registers / (taken * layout.threads),
                             device.threads / layout.threads, device.blocks});
  if (layout.sharedBytes > 0) {
    blocks = std::min(blocks, device.sharedBytes / layout.sharedBytes);
  }
  int64_t threads = std::max<int64_t>(blocks, 1) * layout.threads;
  occupancy.percent = 100 * threads / device.threads;
  int64_t onTheWay = threads * layout.elements * info.bytesRead();
  if (onTheWay > 0) {
    occupancy.readRate = std::min(1.0, static_cast<double>(onTheWay) / device.bytesOnTheWay);
  }
  return occupancy;
}

} // namespace tenon::dispatch

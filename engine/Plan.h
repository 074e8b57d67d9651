// The execution plan: a linear program over buffers, with sizes as expressions over the dims of the
// inputs. The compiler fills it, engine/Writer stores it, engine/Reader gives it back validated.

#pragma once

#include "engine/Expr.h"
#include "engine/Level.h"
#include "support/DType.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::engine {

/// "No such index" in every optional index of a plan.
inline constexpr uint32_t kNone = UINT32_MAX;
/// Alignment of buffers, weights and scratch.
inline constexpr int64_t kBufferAlignment = 64;
/// Offset of an arena buffer that is laid out when the shapes are known.
inline constexpr int64_t kPlannedAtRunTime = -1;
inline constexpr size_t kMaxRank = 32;
/// Most ranks of a group that run one plan.
inline constexpr uint32_t kMaxPlanRanks = 64;
/// Devices of buffers and instructions: those of a variant for a GPU are all on the GPU.
inline constexpr uint16_t kHost = 0;
inline constexpr uint16_t kGpu = 1;

/// A dim that varies. Its value is read from dim `dim` of input `input`; every dim of the inputs is
/// then checked against its own expression, which is how relations between dims are stated. Or it
/// is the session's, and one value holds for all runs of it. Or data decides it: then a Size
/// instruction reads it, and until then it stands at its bound. Symbols come in this order: those
/// of the session, of the inputs, of data.
struct Symbol {
  std::string name;
  int64_t min = 1;
  int64_t max = 1;
  uint32_t input = 0;
  uint32_t dim = 0;
  /// Data-dependent: its largest value, over symbols before it; `input` and `dim` are kNone.
  /// Such symbols are in the order of their instructions.
  ExprId bound = kNone;
  /// Whether it is the session's; `input` and `dim` are kNone. No two of them have one name.
  bool isOfSession = false;
  /// Of the session: the value in a session that is made without one.
  int64_t preset = 0;

  bool isDataDependent() const { return bound != kNone; }
};

/// Values are stored in engine files.
enum class ConstraintKind : uint8_t {
  Equal = 0,      ///< left is right
  EqualOrOne = 1, ///< left is right or 1
  Divisible = 2,  ///< left is a multiple of right
  AtLeast = 3,    ///< left is right or more
};
inline constexpr uint8_t kLastConstraintKind = static_cast<uint8_t>(ConstraintKind::AtLeast);

/// What a node of the model needs of the symbols: checked before anything else is computed from
/// them.
struct Constraint {
  ConstraintKind kind = ConstraintKind::Equal;
  ExprId left = kNone;
  ExprId right = kNone;
  std::string node; ///< for people
};

/// An input or output of the model.
struct Port {
  std::string name;
  DType dtype = DType::F32;
  std::vector<ExprId> dims;
  /// A root buffer of space Input or Output whose size is that of the tensor; no two ports share
  /// one.
  uint32_t buffer = kNone;
};

/// Values are stored in engine files.
enum class Space : uint8_t {
  Const = 0,  ///< weights; read-only; shared by all sessions
  Arena = 1,  ///< contents live from the first to the last instruction that uses them
  State = 2,  ///< owned by the session, zero at first, kept between runs; a size of the session
  Input = 3,  ///< the caller's memory, read-only
  Output = 4, ///< the caller's memory
};

struct Buffer {
  Space space = Space::Arena;
  uint16_t device = kHost;
  ExprId size = kNone; ///< bytes
  /// Const: index into the engine's weights; the size is constant and at most the weight's bytes.
  uint32_t weight = kNone;
  /// A view: `aliasOffset` bytes into buffer `aliasOf`, which has a lower index and the same space
  /// and device. A view has no weight and no offset of its own.
  uint32_t aliasOf = kNone;
  ExprId aliasOffset = kNone;
  /// First and last instruction that touches the buffer or a view of it. Ignored for views.
  uint32_t firstUse = 0;
  uint32_t lastUse = 0;
  /// Arena roots: bytes from the start of the arena, a multiple of 64. Either all arena roots of a
  /// plan have one (then their sizes are constant) or all are kPlannedAtRunTime.
  int64_t offset = kPlannedAtRunTime;
};

/// Values are stored in engine files; a plan that uses one that is not here is refused with TN0514.
enum class InstructionKind : uint8_t {
  Launch = 0, ///< kernel over a grid
  Call = 1,   ///< library, by descriptor (engine/LibraryAbi.h); on a GPU only
  Copy = 2,   ///< buffers = {from, to}; sizes = {bytes}; the ranges do not overlap
  Size = 5,   ///< buffers = {an i64}, which becomes the value of `symbol`
  /// What the ranks of a stage do together, or those of two: buffers = {from, to}, which do not
  /// overlap; sizes = {elements of `from`}. With a kernel, on a GPU: an all-reduce, a residual and
  /// an RMSNorm; buffers = {from, residual, weight, their sum, norm}; sizes = {elements, blocks}. A
  /// collective and launches behind it are its fallbacks.
  Collective = 6,
  Return = 12, ///< the last instruction, and only there
};
/// "launch", as records and reports call it.
const char *nameOf(InstructionKind kind);

/// Values are stored in engine files.
enum class CollectiveKind : uint8_t {
  AllReduce = 0, ///< the sum of all ranks' elements on each, added in the order of ranks in f32
  AllGather = 1, ///< the elements of all ranks on each, one rank's behind the other's
  /// The elements of each rank of a stage to the rank in the same position of the next stage.
  SendReceive = 2,
};
inline constexpr uint8_t kLastCollectiveKind = static_cast<uint8_t>(CollectiveKind::SendReceive);
/// "all-reduce", as records and reports call it.
const char *nameOf(CollectiveKind kind);

/// A matrix of 16-bit elements that lies row by row in a launch's buffer from its start, as a GPU's
/// copy engine takes it to shared memory: by boxes of `boxRows` rows of 128 bytes, in which the
/// 16-byte chunk c of row r is placed at chunk c ^ (r % 8). What a box has outside of the matrix is
/// filled with zeros.
struct TensorMap {
  uint32_t buffer = 0; ///< position in the instruction's buffers
  uint8_t elementBytes = 2;
  ExprId rows = kNone;
  ExprId columns = kNone;
  /// From the start of a row to that of the next: a multiple of 16.
  ExprId rowBytes = kNone;
  uint16_t boxRows = 0;    ///< 1 to 256
  uint16_t boxColumns = 0; ///< those of 128 bytes
};
/// Bytes of a row of a box, and the most rows of it.
inline constexpr uint32_t kBoxRowBytes = 128;
inline constexpr uint32_t kMaxBoxRows = 256;
/// Most tensor maps of a launch: with its other arguments they fit in the 4 KiB that a kernel
/// takes.
inline constexpr size_t kMaxTensorMaps = 8;

/// As Instruction::cluster: blocks wait for blocks of the whole grid, so all of them run at the
/// same time or none does (a cooperative launch).
inline constexpr uint32_t kWholeGrid = 0;

struct Instruction {
  InstructionKind kind = InstructionKind::Return;
  uint16_t device = kHost;
  /// Within a section: which of its two queues, 0 or 1. Elsewhere 0.
  uint16_t queue = 0;
  /// Launch, and a collective with a kernel: index into the kernel names of the variant.
  uint32_t kernel = kNone;
  /// The first `reads` are only read; the others are written (and may be read). Written ones are
  /// never of space Const or Input.
  std::vector<uint32_t> buffers;
  uint32_t reads = 0;
  std::vector<ExprId> sizes;
  /// Launch on a GPU: what the kernel takes after buffers and sizes, each as an array of 128 bytes.
  std::vector<TensorMap> tensorMaps;
  /// Launch: number of grid points (on a GPU, of blocks); 0 skips the launch. Copy on a CPU:
  /// pieces that threads share; kNone for one.
  ExprId grid = kNone;
  /// Launch: bytes of scratch for each thread (on a GPU, of dynamic shared memory for each block);
  /// kNone for none.
  ExprId scratch = kNone;
  uint32_t threads = 0;        ///< Launch on a GPU, collective with a kernel: threads of a block
  std::vector<std::byte> call; ///< Call: the descriptor
  uint32_t symbol = kNone;     ///< Size; SendReceive: of rows that may go in parts
  /// Collective: what is done, to elements of which type (an all-reduce: f32, f16, bf16 or f64).
  CollectiveKind collective = CollectiveKind::AllReduce;
  DType dtype = DType::F32;
  /// In a plan of several stages: those that run it, bit s for stage s; 0 for all. A SendReceive
  /// has the bits of two stages in a row, of which the first sends.
  uint64_t stages = 0;
  /// Behind a call or a collective with a kernel: done in its place where the libraries that are
  /// found, or the kernel, cannot do it.
  bool isFallback = false;
  /// Launch on a GPU: the kernel takes the place for its status behind all else (KernelAbi.h).
  bool canFail = false;
  /// Launch on a GPU: blocks of a cluster or kWholeGrid, and whether the kernel waits by itself for
  /// the kernels before it, so that it may start before they have ended (programmatic dependent
  /// launch).
  uint32_t cluster = 1;
  bool isDependentLaunch = false;
  /// What is done in all: arithmetic operations (a multiply-add counts as two), and bytes of the
  /// operands, each read or written once. For people and their measurements; kNone where not known.
  ExprId flops = kNone;
  ExprId bytesMoved = kNone;
  /// For people: what the model states that the kernel looks at; an error of a constraint says it.
  std::string constraint;
  /// For people: the source node or region ("conv1+relu"); shown by profiles and errors.
  std::string label;

  bool runsIn(uint32_t stage) const { return stages == 0 || (stages >> stage & 1) != 0; }
};

/// On a GPU, in a graph: the two queues of instructions [first, end) part before `first` and meet
/// before `end`. Where the memory of a run's shape lies so that an instruction of one queue writes
/// what one of the other uses, the section is not taken.
struct Section {
  uint32_t first = 0;
  uint32_t end = 0;
};

struct Plan {
  /// How many symbols are the session's: the first ones.
  size_t sessionSymbols() const {
    size_t count = 0;
    while (count < symbols.size() && symbols[count].isOfSession) {
      ++count;
    }
    return count;
  }
  /// How many symbols are known before a run: those before the data-dependent ones.
  size_t knownSymbols() const {
    size_t count = symbols.size();
    while (count > 0 && symbols[count - 1].isDataDependent()) {
      --count;
    }
    return count;
  }

  std::vector<Symbol> symbols;
  std::vector<Constraint> constraints;
  ExprTable exprs;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  /// In order and apart, before the first Size instruction.
  std::vector<Section> sections;
  /// Bytes of the arena when all offsets are static, else 0.
  int64_t arenaBytes = 0;
  /// Where the arena is laid out at run time: instructions between the last use of a buffer and the
  /// first of one in its place, where that costs no memory, so that those between may overlap.
  uint32_t restingInstructions = 0;
  /// The code checks its accesses against the ranges of each launch (KernelAbi.h).
  bool isGuarded = false;
  /// How many ranks run the plan together, each with its own arrays of weights, arena and state.
  uint32_t ranks = 1;
  /// Pipeline stages: each has as many ranks as the others, in a row, and instructions of its own.
  uint32_t stages = 1;

  uint32_t ranksOfStage() const { return ranks / stages; }
  uint32_t stageOf(uint32_t rank) const { return rank / ranksOfStage(); }
};

/// By buffer: whether the stage's instructions touch it or a view of it.
std::vector<bool> buffersOfStage(const Plan &plan, uint32_t stage);
/// The stage whose instructions write an output.
uint32_t stageOfOutput(const Plan &plan, size_t output);

/// One array of weights, packed as the kernels read it.
struct Weight {
  std::string name;
  uint64_t bytes = 0;  ///< of one rank
  uint64_t offset = 0; ///< from the start of the weights section; set by the writer
  /// How many arrays there are: 1 for all ranks, or one for each rank of a stage of the plans.
  uint32_t ranks = 1;

  /// From one array to the next.
  uint64_t stride() const {
    constexpr uint64_t alignment = kBufferAlignment;
    return (bytes + alignment - 1) / alignment * alignment;
  }
  /// Of the rank in this position of its stage.
  uint64_t offsetOf(uint32_t rank) const { return offset + (ranks == 1 ? 0 : rank * stride()); }
  /// All arrays, with what lies between them.
  uint64_t bytesOfAll() const { return (ranks - 1) * stride() + bytes; }
};

/// A plan with its code, for one level. The first of a level takes all sizes of the model; others
/// are of the same model with some sizes known.
struct Variant {
  std::string level; ///< "avx512", "sm_90" (engine/Level.h)
  Plan plan;
  std::vector<std::string> kernels; ///< symbols of the code object, by kernel index
  /// What the level asks of a machine. The writer sets both for a level of the table.
  Architecture architecture = Architecture::X86_64;
  uint32_t features = 0;
};

struct Provenance {
  std::string compiler; ///< version of Tenon that wrote the engine
  std::string model;    ///< hash of the model file
  std::string options;  ///< the compile options as JSON
};

} // namespace tenon::engine

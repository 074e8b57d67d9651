// What a model is on a board: tensors of 8-bit numbers in one arena, and calls of kernels in order,
// each with the constants that it reads. A value without MLIR.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::codegen::edge {

enum class Kernel : uint8_t {
  Conv,
  Depthwise,
  Add,
  Mul,
  Affine,
  Average,
  Maximum,
  Table,
  Softmax,
  Move,
  Fill,
  Mean,
  AddLite,
  AverageLite,
  SoftmaxLite,
};
inline constexpr size_t kKernels = 15;

/// A kernel of edge/kernels.
struct KernelInfo {
  std::string_view name;           ///< "conv": its function is tn_conv, its parameters
                                   ///< tn_conv_shape
  std::string_view text;           ///< C99
  std::vector<std::string> fields; ///< of its parameters, all int32_t, in order
};
const KernelInfo &infoOf(Kernel kernel);
/// What all of them include.
std::string_view commonKernelText();

/// Of s8, dense but for the places of its rows.
struct Tensor {
  int64_t bytes = 0;
  int64_t offset = 0; ///< in the arena
  int64_t rows = 1;   ///< that are made and freed one by one
  /// Where each row lies in the arena, in units of kPlaceUnit; empty where they are neighbours from
  /// `offset` on.
  std::vector<uint16_t> places = {};
};
inline constexpr int64_t kPlaceUnit = 4;

/// An array that a call reads.
struct Constant {
  std::string name; ///< "weights", "bias", "multiplier", ...
  std::string type; ///< of an element in C
  int64_t elementBytes = 1;
  std::vector<char> bytes;
};

/// What a call makes in one step of a plan by rows.
enum class RowForm : uint8_t {
  Whole,  ///< everything
  Window, ///< a row, from rows of the first tensor that it reads
  Each,   ///< a row, from the same row of each tensor that it reads
  Sum,    ///< a part of its only row, from a row of what it reads
};

struct Call {
  Kernel kernel = Kernel::Fill;
  std::string node;       ///< of the model
  std::vector<int> reads; ///< tensors
  int writes = -1;
  bool mayOverwrite = false;  ///< writes may lie where the first of `reads` does
  bool completes = true;      ///< what it writes is then whole
  std::vector<int32_t> shape; ///< the kernel's parameters, as KernelInfo::fields
  std::vector<Constant> constants;
  int64_t products = 0;          ///< multiplications of numbers by weights
  RowForm form = RowForm::Whole; ///< whose parameters `shape` then holds
  int sums = -1;                 ///< of RowForm::Sum: the tensor of sums between rows
};

/// An input or output. A number q stands for (q - zero) * scale.
struct Port {
  std::string name;
  std::vector<int64_t> dims;
  int tensor = -1;
  double scale = 1;
  int32_t zero = 0;
};

/// A row of what a call makes.
struct Step {
  int call = 0; ///< or the number of calls: the row of the input is awaited
  int row = 0;
};

/// When a tensor is in memory.
struct Stay {
  int tensor = -1;
  int64_t most = 0;           ///< rows at once
  int64_t begin = 0, end = 0; ///< steps [begin, end)
};

/// What lies in the arena from run to run.
struct State {
  std::string name;
  int tensor = -1;
  std::vector<int8_t> initial; ///< before the first run
};

struct Program {
  std::vector<Tensor> tensors;
  std::vector<Call> calls;
  std::vector<Step> steps;    ///< by rows; empty: all calls, whole and in order
  bool isInputByRows = false; ///< the input is awaited row by row
  int64_t stepOffset = 0;     ///< then: where in the arena the number of the step lies
  std::vector<Port> inputs, outputs;
  std::vector<State> states;
  int64_t arenaBytes = 0;
  bool roundsTwice = false;           ///< as TensorFlow Lite Micro does
  std::vector<std::string> peakNodes; ///< of the calls at which most bytes are live, in order
  std::vector<Stay> stays;            ///< in order of tensors
  std::vector<int64_t> live;          ///< bytes at each step
};

/// All steps; without rows, each call is one.
std::vector<Step> stepsOf(const Program &program);
/// Where a row lies.
int64_t rowOffset(const Tensor &tensor, int64_t row);
/// Of a program by rows: bytes of a number in the tables of steps, and of all tables.
int64_t stepCallBytes(const Program &program);
int64_t stepRowBytes(const Program &program);
int64_t rowTableBytes(const Program &program);
/// Whether a step reads of the operand the row of its own number.
bool readsRow(const Program &program, const Call &call, size_t operand);
/// Where what a step is given of an operand begins: a row, a tensor, or the arena from which places
/// count.
int64_t readOffset(const Program &program, const Call &call, size_t operand, int64_t row);
int64_t writeOffset(const Program &program, const Call &call, int64_t row);
/// What a step completes: a row, all of a tensor, or nothing yet.
struct MadeRow {
  int64_t offset = 0, bytes = 0;
};
MadeRow madeRow(const Program &program, const Step &step);

/// A node without a kernel.
struct Gap {
  std::string op; ///< the model's operator
  std::string node;
  std::string dtype; ///< of the first operand
  int rank = -1;
  std::string why, workaround;
};

/// Pictures come in as [n, h, w, c] where the model has [n, c, h, w] and its first call turns them;
/// false where it has none of these.
bool takeChannelsLast(Program &program);

/// Gives each tensor its place, so that the arena is small, and finds the peak.
void planArena(Program &program);

/// The same by rows: each is made when it is asked for and freed behind its last reader, without
/// computing anything twice. None where the arena is beyond the reach of places, or where
/// `isInputByRows` is asked of a model with several inputs or one that is needed at once.
std::optional<Program> planRows(const Program &program, bool isInputByRows);

inline constexpr uint32_t kSelfTestSeed = 1;
/// Bytes of the self-test's inputs, which come one after the other from one state.
std::vector<int8_t> selfTestInput(size_t bytes, uint32_t &state);

/// What the bytes of a call's output hash to (FNV-1a); 0 where the output is not whole.
struct LayerHash {
  uint32_t bytes = 0;
  uint32_t places = 0; ///< of the offsets of its rows
};

/// Runs the calls on the host by the same kernels, with the self-test's inputs.
std::vector<LayerHash> layerHashes(const Program &program);
/// The same where kernels round twice.
decltype(layerHashes) layerHashesTwice;

/// A file of the folder.
struct File {
  std::string name;
  std::string content;
};

/// What LLVM makes of a program for a core (Library.h), as headers and reports say it.
struct Footprint {
  std::string core;
  int64_t stackBytes = 0, codeBytes = 0;
  std::string archive; ///< of a library, which takes the place of C files; empty for a folder of C
};

/// The folder of C99 or with a library, and the report that it also holds. `name` is a C
/// identifier.
struct Folder {
  std::vector<File> files;
  std::string report;      ///< tenon.edge/1
  int64_t weightBytes = 0; ///< weights and biases
  int64_t scaleBytes = 0;  ///< multipliers, shifts and tables
  int64_t rowBytes = 0;    ///< tables of steps and of places of rows
};
Folder printFolder(const Program &program, const std::string &name, const Footprint &footprint);

/// Whether it can be the beginning of names in C.
bool isIdentifier(std::string_view name);

} // namespace tenon::codegen::edge

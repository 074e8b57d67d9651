// What a model is on a board: tensors of 8-bit numbers in one arena, and calls of kernels in order,
// each with the constants that it reads. A value without MLIR.
#pragma once

#include <cstdint>
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
  AddLite,
  AverageLite,
  SoftmaxLite,
};
inline constexpr size_t kKernels = 14;

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

/// Of s8, dense.
struct Tensor {
  int64_t bytes = 0;
  int64_t offset = 0; ///< in the arena
};

/// An array that a call reads.
struct Constant {
  std::string name; ///< "weights", "bias", "multiplier", ...
  std::string type; ///< of an element in C
  int64_t elementBytes = 1;
  std::vector<char> bytes;
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
  int64_t products = 0; ///< multiplications of numbers by weights
};

/// An input or output. A number q stands for (q - zero) * scale.
struct Port {
  std::string name;
  std::vector<int64_t> dims;
  int tensor = -1;
  double scale = 1;
  int32_t zero = 0;
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
  std::vector<Port> inputs, outputs;
  std::vector<State> states;
  int64_t arenaBytes = 0;
  bool roundsTwice = false;           ///< as TensorFlow Lite Micro does
  std::vector<std::string> peakNodes; ///< of the calls at which most bytes are live, in order
};

/// A node without a kernel.
struct Gap {
  std::string op; ///< the model's operator
  std::string node;
  std::string dtype; ///< of the first operand
  int rank = -1;
  std::string why, workaround;
};

/// Gives each tensor its place, so that the arena is small, and finds the peak.
void planArena(Program &program);

inline constexpr uint32_t kSelfTestSeed = 1;
/// Bytes of the self-test's inputs, which come one after the other from one state.
std::vector<int8_t> selfTestInput(size_t bytes, uint32_t &state);

/// Runs the calls on the host by the same kernels: for each what its output's bytes hash to
/// (FNV-1a), with the self-test's inputs; 0 where the output is not whole.
std::vector<uint32_t> layerHashes(const Program &program);
/// The same where kernels round twice.
decltype(layerHashes) layerHashesTwice;

/// A file of the folder.
struct File {
  std::string name;
  std::string content;
};

/// The C99 folder, and the report that it also holds. `name` is a C identifier.
struct Folder {
  std::vector<File> files;
  std::string report;      ///< tenon.edge/1
  int64_t weightBytes = 0; ///< weights and biases
  int64_t scaleBytes = 0;  ///< multipliers, shifts and tables
};
Folder printFolder(const Program &program, const std::string &name);

/// Whether it can be the beginning of names in C.
bool isIdentifier(std::string_view name);

} // namespace tenon::codegen::edge

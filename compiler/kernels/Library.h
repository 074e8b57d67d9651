// The user's kernels: a file of machine code and, beside it, a description that says which
// operators its functions compute and how they are called (docs/guides/kernels.md). Free of MLIR.
#pragma once

#include "support/DType.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::kernels {

inline constexpr std::string_view kCpu = "cpu", kCuda = "cuda";
/// What a size of a description is at most.
inline constexpr int64_t kMostOfSize = int64_t{1} << 31;

/// An input or output of an operator. A dim of an input that is a word names a size; each other dim
/// is an expression over sizes.
struct Port {
  std::string name;
  DType type = DType::F32;
  std::vector<std::string> dims;
};

/// An attribute of a node that a kernel reads: an I64, F32 or F64, or a list of as many as `count`
/// says.
struct AttributeRule {
  std::string name;
  DType type = DType::F32;
  std::optional<size_t> count; ///< none for a number
  /// What it holds where the node lacks it; none if it must have it.
  std::optional<std::vector<double>> otherwise;

  size_t elements() const { return count.value_or(1); }
  /// As arguments name an element: "alpha", or "pads[1]" of a list.
  std::string elementName(size_t index) const;
};

/// What a size may be at least and at most.
struct SizeRange {
  std::string name;
  int64_t min = 0, max = kMostOfSize;
};

/// One entry of a description. Expressions are those that tn::parseDim reads, over `sizes`.
struct Kernel {
  std::string op; ///< "com.example::VectorAdd"
  std::string backend;
  std::string symbol;
  std::vector<Port> inputs, outputs;
  std::vector<std::string> sizes; ///< in the order in which dims of inputs first name them
  std::vector<SizeRange> ranges;  ///< of some sizes
  std::vector<AttributeRule> attributes;
  /// What the function takes: names of inputs, outputs (pointers) and elements of attributes,
  /// expressions (64-bit integers); on a CPU also "begin" and "end", between which grid points are
  /// its own, and "scratch", its thread's memory.
  std::vector<std::string> arguments;
  std::vector<std::string> grid; ///< expressions; empty for one point
  std::vector<int64_t> block;    ///< threads of a block, on a GPU
  std::string scratchBytes;      ///< expression: of a thread, on a GPU of shared memory of a block
  /// Path of Triton's metadata, which gives symbol, block and shared memory; empty for none. Its
  /// PTX takes pointers to scratch memory behind the arguments.
  std::string metadata;
  std::string rows;      ///< size whose rows do not depend on each other; empty for none
  std::string reference; ///< path of an ONNX model that computes the same; empty for none
  /// A function that computes the same on a CPU, from the same arguments with whole numbers of 64
  /// bits; empty for none. It is in the library of that hash, among Library::references.
  std::string referenceSymbol, referenceLibrary;
  std::string referenceFile; ///< name of that library without folder
  double tolerance = 0;      ///< of results, absolute and relative; 0 for that of their type
  std::string library;       ///< hash of the library
  std::string file;          ///< its name without folder
  std::string json;          ///< the entry in one line, with those two: `parseKernel` reads it
};

struct Library {
  std::string path;
  std::vector<std::byte> bytes;
  std::string hash;
  std::string digest; ///< of the library, its description and the references
  std::vector<Kernel> kernels;
  /// Those that functions of Kernel::referenceSymbol are in, with nothing but their bytes.
  std::vector<std::shared_ptr<const Library>> references;
};

/// A library and its description, the file of the same name that ends in ".json" (schema
/// tenon.kernels/1): of its kernels those for GPUs where the library ends in ".ptx", else those for
/// CPUs. TN0306 for a description that is not valid.
Result<std::shared_ptr<const Library>> readLibrary(const std::string &path);

/// The entry of the function of `referenceSymbol`, as a kernel for CPUs.
std::string referenceEntry(const Kernel &kernel);

/// An entry from Kernel::json.
Result<Kernel> parseKernel(std::string_view json);

/// A kernel with what the importers need of it.
struct TableEntry {
  Kernel kernel;
  std::string reference; ///< the text of the module that its reference model is; empty for none
};

/// All kernels of a compilation.
struct KernelTable {
  std::vector<TableEntry> entries;

  /// Those of an operator, "com.example::VectorAdd".
  std::vector<const TableEntry *> find(std::string_view op) const;
};

/// Memory that a trial of a kernel gives it.
struct TrialBuffer {
  std::string name;
  bool isWritten = false;
  std::vector<std::byte> bytes; ///< of inputs what they hold, of outputs what they are filled with
};

/// A call of a compiled kernel (engine/KernelAbi.h), to be made in a process of its own.
struct Trial {
  Bytes code;        ///< a code object, or PTX
  std::string level; ///< CPU level, or GPU architecture, that it is for
  std::string symbol;
  std::vector<TrialBuffer> buffers;
  std::vector<int64_t> sizes;
  int64_t grid = 1;
  uint32_t threads = 0;   ///< of a block, on a GPU
  bool isAtStart = false; ///< buffers begin behind their guard, else they end before it
  uint64_t scratchBytes = 0;
};

struct TrialResult {
  std::vector<std::vector<std::byte>> outputs; ///< of written buffers, in their order
  double seconds = 0;                          ///< of one call
};

} // namespace tenon::kernels

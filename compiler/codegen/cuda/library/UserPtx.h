// PTX that a user gives, as the kernels in it and as one kernel in the form of ours: so it is
// joined with the engine's PTX, started and captured as any other kernel, and the runtime knows
// nothing of it.
#pragma once

#include "compiler/target/Target.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::codegen::cuda {

struct PtxParameter {
  std::string name;
  uint64_t bytes = 0; ///< of a scalar or a pointer
};

/// An `.entry` of the PTX.
struct PtxEntry {
  std::string name;
  std::vector<PtxParameter> parameters;
  int64_t exactThreads = 0; ///< `.reqntid`; 0 without
  int64_t mostThreads = 0;  ///< `.maxntid`; 0 without
  int64_t sharedBytes = 0;  ///< its own arrays; those of the module count for each entry
};

/// One entry in the form of ours.
struct PtxKernel {
  llvm::StringRef entry;
  llvm::StringRef symbol; ///< its new name; that of all else in the module begins with it
  /// The entry's parameters in the order in which the engine passes them, each as 64 bits of which
  /// the entry reads the lowest: pointers, then sizes.
  std::vector<unsigned> order;
  /// Threads of a block; they are started in one dimension.
  std::array<int64_t, 3> block = {1, 1, 1};
  /// Above 1 the entry gets the three sizes of its grid behind its parameters; the blocks are
  /// started in one dimension.
  unsigned gridDims = 1;
};

class UserPtx {
public:
  /// An error says what is wrong, or what an engine cannot take: functions that are not in the
  /// module, clusters, textures, structs as parameters.
  static llvm::Expected<UserPtx> parse(llvm::StringRef text);

  const std::vector<PtxEntry> &entries() const { return found; }
  /// Null without it.
  const PtxEntry *find(llvm::StringRef entry) const;
  /// An error says that the code does not run on the target.
  llvm::Error fits(const target::Target &gpu) const;
  /// A module with the kernel and what it calls, for the target.
  llvm::Expected<std::string> take(const PtxKernel &kernel, const target::Target &gpu) const;

private:
  /// A statement of the module without comments and lines for debuggers.
  struct Statement {
    std::string text;
    std::string name; ///< what it declares
    bool isEntry = false;
    bool isFunction = false;
  };

  llvm::Error add(llvm::StringRef statement);
  llvm::Error addEntry(Statement statement);

  int64_t version = 0; ///< 87 for 8.7
  std::string arch;
  std::vector<Statement> statements;
  std::vector<PtxEntry> found;
};

} // namespace tenon::codegen::cuda

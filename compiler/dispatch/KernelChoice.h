// Which kernel computes a region: a family and its configuration. It stands on the region as
// `tn.kernel`, codegen emits it, users read and write it as gemm_skinny{stages=6,tile=64x48}.
#pragma once

#include "compiler/dispatch/Records.h"
#include "compiler/dispatch/WeightLayout.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>
#include <type_traits>

namespace tenon::dispatch {

struct KernelChoice {
  /// A tile has a number for each of its dims, a switch is 0 or 1.
  using Numbers = llvm::SmallVector<int64_t, 3>;

  std::string family;
  std::map<std::string, Numbers> parameters;

  std::string text() const;
  /// An error names what does not read.
  static llvm::Expected<KernelChoice> parse(llvm::StringRef text);

  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context) const;
  static llvm::Expected<KernelChoice> fromAttribute(mlir::Attribute attribute);

  bool operator==(const KernelChoice &other) const = default;
};

/// The choice of a family in this configuration. `visitParameters(visit, config)`, which the family
/// declares beside its configuration, calls `visit(name, member...)` for each parameter.
template <typename Config> KernelChoice choiceOf(llvm::StringRef family, Config config) {
  KernelChoice choice{family.str(), {}};
  auto write = [&](llvm::StringRef name, auto &...members) {
    choice.parameters[name.str()] = {static_cast<int64_t>(members)...};
  };
  visitParameters(write, config);
  return choice;
}

/// The parameters of a choice that a family has read, and what was wrong with them.
class ParameterReader {
public:
  explicit ParameterReader(const KernelChoice &source) : choice(source) {}

  template <typename... Members> void operator()(llvm::StringRef name, Members &...members) {
    const KernelChoice::Numbers *numbers = find(name, sizeof...(members));
    size_t next = 0;
    if (numbers) {
      ((members = static_cast<std::remove_reference_t<Members>>((*numbers)[next++])), ...);
    }
  }
  /// Success if every parameter of the family was there, and no other.
  llvm::Error finish() const;

private:
  const KernelChoice::Numbers *find(llvm::StringRef name, size_t count);

  const KernelChoice &choice;
  size_t read = 0;
  std::string problem;
  llvm::SmallVector<std::string> known;
};

/// The configuration that a choice states; members that are no parameters stay as they are.
template <typename Config> llvm::Error readParameters(const KernelChoice &choice, Config &config) {
  ParameterReader reader(choice);
  visitParameters(reader, config);
  return reader.finish();
}

/// What a family's results have other roundings by than sums of products have.
struct Approximation {
  llvm::StringLiteral operation; ///< of the region that it is about
  llvm::StringLiteral name;      ///< stable, for tests and users
  llvm::StringLiteral why;
};

/// A kernel that computes a region, and the time that its family predicts.
struct KernelCandidate {
  KernelChoice kernel;
  double microseconds = 0;
  /// How it reads the region's weight; none if it reads all inputs as they lie.
  std::optional<WeightLayout> weight;
};

/// Of the time of a kernel that is preferred, what another one must be predicted to take to be
/// chosen instead. Predictions are 10 to 20 % off, and they are of kernels alone, whose weights are
/// in the cache: in a model those that are preferred ask for their weights before the kernel ahead
/// has ended. Where the least time alone decided, an H200 took 17 % longer for a T5 encoder, 4 %
/// for Swin-T and 20 % for ResNet-50 at batch 64.
inline constexpr double kSwitchMargin = 0.6;

/// What the user asks of the choice for one region.
struct KernelRequest {
  /// Of this family; parameters that it does not name are those of the family's own choice.
  const KernelChoice *wanted = nullptr;
  llvm::ArrayRef<std::string> disabled;
};

/// The choice, with what each family answered.
struct KernelSelection {
  KernelChoice chosen;
  double microseconds = 0; ///< predicted, of the chosen one
  std::optional<WeightLayout> weight;
  std::vector<CandidateRecord> candidates;
};

} // namespace tenon::dispatch

// The builder of a language model's module: one step of a decoder over the tokens that are new.
// Relies on the table of families for what differs.
#pragma once

#include "compiler/frontend/language/Weights.h"

#include <functional>
#include <map>

namespace tenon::language {

class Step;

/// Emits the operations of one part of the model, such as a layer's attention.
class Emitter : public frontend::Emitter {
public:
  Emitter(Step &owner, std::string name);

  void gap(const llvm::Twine &why, const llvm::Twine &workaround) override;
  void error(ErrorId id, const llvm::Twine &what) override;
  std::string label() const override { return name; }

private:
  Step &step;
  std::string name;
};

/// Of the turns of rotary embeddings, where the tokens stand: [tokens, 1, turned], the last dim in
/// pairs.
struct Angles {
  mlir::Value cosine, sine;
};

class Step : public frontend::ModuleBuilder {
  using Value = mlir::Value;

public:
  Step(const Model &theModel, const frontend::ImportOptions &theOptions, mlir::MLIRContext &owner,
       tn::WeightStore &theStore)
      : ModuleBuilder(owner, theStore), model(theModel), options(theOptions),
        weights(theModel, theStore) {}

  Result<frontend::ImportResult> run();

  const Model &model;
  std::vector<frontend::Gap> gaps;
  Status failure;

private:
  Status makeInputs();
  Status makeOneSequence();
  Status makePages();
  void addCaches(mlir::Type element, std::function<tn::Dims(int64_t width)> dims);
  Result<mlir::AffineExpr> sizeOf(llvm::StringRef input, llvm::StringRef symbol, int64_t most);
  void prepare();
  Angles anglesOf(Emitter &c, const Rotation &rotation);
  Value maskOf(Emitter &c, int64_t window);
  Value embedded();
  Value layer(int64_t index, Value x);
  Value attention(int64_t index, Value x);
  Value feedForward(int64_t index, Value x);
  Value projected(Value x, const std::string &part, Rows rows, int64_t headWidth);
  Value turned(Emitter &c, Value x, int64_t heads, const Angles &angles);
  Value attended(Emitter &c, Value q, Value k, Value v, bool isWindowed);
  /// The same over pages, with the cached pages for k and v.
  Value attendedPages(Emitter &c, Value q, Value k, Value v, bool isWindowed);
  Value capped(Emitter &c, Value x, double cap);
  Value cached(Emitter &c, std::string_view kind, int64_t index, Value x);
  Value writtenToPages(Emitter &c, std::string_view kind, int64_t index, Value x);
  bool hasPages() const { return options.pages > 0; }
  /// RMSNorm or LayerNorm by the tensors of this name, over the last dim.
  Value norm(Value x, const std::string &name, int64_t size);
  Value product(Value x, const std::string &name, Rows outputs, int64_t inputs,
                bool needsBias = false);
  /// What the file calls the layer of these tensors, for people: "blk.3.attn_q", or
  /// "model.layers.3.self_attn.q_proj".
  std::string fileName(const std::string &name) const;
  /// What the file calls a layer, or the part of it that a tensor is in: `own` for a GGUF file,
  /// which has no names for parts; of a folder the name behind which `depth` others stand.
  std::string partName(const std::string &own, const std::string &tensor, int depth) const;

  const frontend::ImportOptions &options;
  Weights weights;
  mlir::AffineExpr tokens, rows, seen;
  int64_t positions = 0;
  Value tokenIds, rowNumbers;
  Value start, seenPositions;              ///< of one sequence
  Value slots, starts, lengths, pageTable; ///< of sequences in pages
  Value places;                            ///< of the tokens, [tokens]
  Angles angles, windowAngles;
  Value mask, windowMask; ///< where scores have a cap, which `tn.attention` lacks
  std::map<std::string, mlir::BlockArgument> caches;
  std::vector<std::pair<std::string, Value>> states; ///< an input, and what replaces it
};

} // namespace tenon::language

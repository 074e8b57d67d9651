// Small engines for tests, assembled by hand and written with the real writer. Relies on the code
// objects that CMake compiles from TestKernels.c.

#pragma once

#include "engine/Writer.h"
#include "support/memory/ByteSpan.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace tenon::test {

/// Kernels of TestKernels.c in the order of their indices.
enum Kernel : uint32_t { Scale, Add, Product, Gather, Scratch, Fail, Nothing, Who };
std::vector<std::string> kernelNames();

/// Bytes of a whole file; fails the test when it cannot be read.
std::vector<std::byte> readFile(const std::string &path);
void writeFile(const std::string &path, Bytes bytes);
/// Code object whose test_scale multiplies by 2 ("two") or 3 ("three"); "needed" and "initializer"
/// break a rule of code objects each.
std::vector<std::byte> codeObject(const std::string &name);
/// The header of an ELF file for NVIDIA's machine: 64 bytes with nothing behind them.
std::vector<std::byte> cubinHeader();
/// A path in a folder of this test process that is removed when it ends.
std::string temporaryPath(const std::string &name);

/// Adds to a plan with less writing.
class PlanBuilder {
public:
  engine::Plan plan;

  engine::ExprId size(int64_t value) { return plan.exprs.constant(value); }
  /// A symbol read from dim `dim` of input `input`.
  engine::ExprId symbol(const std::string &name, int64_t min, int64_t max, uint32_t input,
                        uint32_t dim);
  /// A symbol of the session; before those of inputs.
  engine::ExprId sessionSymbol(const std::string &name, int64_t min, int64_t max, int64_t preset);
  /// A symbol that data decides.
  engine::ExprId dataSymbol(const std::string &name, engine::ExprId bound, int64_t max);
  uint32_t input(const std::string &name, DType dtype, std::vector<engine::ExprId> dims);
  uint32_t output(const std::string &name, DType dtype, std::vector<engine::ExprId> dims);
  uint32_t weight(uint32_t index, int64_t bytes);
  uint32_t arena(engine::ExprId bytes, uint32_t first, uint32_t last, int64_t offset = -1);
  uint32_t state(int64_t bytes) { return stateOf(size(bytes)); }
  uint32_t stateOf(engine::ExprId bytes);
  uint32_t view(uint32_t base, engine::ExprId offset, engine::ExprId bytes);

  engine::Instruction &launch(Kernel kernel, std::vector<uint32_t> reads,
                              std::vector<uint32_t> writes, engine::ExprId grid,
                              std::vector<engine::ExprId> sizes = {});
  void copy(uint32_t from, uint32_t to, engine::ExprId bytes);
  void collective(engine::CollectiveKind kind, uint32_t from, uint32_t to, engine::ExprId elements);
  /// Binds the data-dependent symbol of this number to the contents of a buffer.
  void bindSize(uint32_t from, uint32_t symbol);
  void finish();

private:
  engine::ExprId bytesOf(DType dtype, const std::vector<engine::ExprId> &dims);
};

/// Weights given as whole arrays.
struct WeightData {
  std::string name;
  std::vector<std::byte> bytes; ///< of all ranks, one after the other
  uint32_t ranks = 1;
};
WeightData floats(const std::string &name, const std::vector<float> &values, uint32_t ranks = 1);

/// Content of an engine with one variant for every x86-64-v3 machine, its code and weights.
struct TestEngine {
  std::vector<std::byte> code = codeObject("two");
  std::vector<WeightData> weights;
  engine::EngineContent content;

  TestEngine(engine::Plan plan, std::vector<WeightData> data = {},
             const std::string &codeName = "two");
  TestEngine(const TestEngine &) = delete;

  Result<engine::EngineFileSize> write(const std::string &path) const;
  /// Writes to a temporary file; fails the test on error.
  std::string writeTemporary(const std::string &name) const;
};

/// y[batch, 3] = (2 * x[batch, 8]) * W[8, 3] with batch 1 to 64; arena planned at run time.
engine::Plan dynamicPlan();
/// The same for batch 4 with static offsets.
engine::Plan staticPlan();
std::vector<WeightData> productWeights();
/// What the two plans compute.
std::vector<float> expectedProduct(const std::vector<float> &input, float factor = 2);

} // namespace tenon::test

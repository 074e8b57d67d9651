// Builds test plans and writes them; see EngineFixture.h.

#include "test/unit/engine/EngineFixture.h"

#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <unistd.h>

namespace tenon::test {

using namespace tenon::engine;

std::vector<std::string> kernelNames() {
  return {"test_scale",   "test_add",  "test_product", "test_gather",
          "test_scratch", "test_fail", "test_nothing", "test_who"};
}

std::vector<std::byte> readFile(const std::string &path) {
  Result<FileReader> file = FileReader::open(path);
  if (!file.isOk()) {
    ADD_FAILURE() << file.status().toString();
    return {};
  }
  std::vector<std::byte> bytes(file->size());
  Status status = file->read(0, bytes);
  EXPECT_TRUE(status.isOk()) << status.toString();
  return bytes;
}

void writeFile(const std::string &path, Bytes bytes) {
  Result<AtomicFile> file = AtomicFile::create(path);
  ASSERT_TRUE(file.isOk()) << file.status().toString();
  ASSERT_TRUE(file->append(bytes).isOk());
  ASSERT_TRUE(file->commit().isOk());
}

std::vector<std::byte> codeObject(const std::string &name) {
  return readFile(std::string(TENON_TEST_CODE_DIR) + "/code_" + name + ".so");
}

namespace {

/// Made at first use, removed with the process.
struct TemporaryFolder {
  std::string path = "/tmp/tenon-test-XXXXXX";
  TemporaryFolder() {
    if (!mkdtemp(path.data())) {
      std::abort();
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

} // namespace

std::vector<std::byte> cubinHeader() {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 190;
  Bytes bytes = std::as_bytes(std::span(&header, 1));
  return {bytes.begin(), bytes.end()};
}

std::string temporaryPath(const std::string &name) {
  static const TemporaryFolder folder;
  return folder.path + "/" + name;
}

ExprId PlanBuilder::symbol(const std::string &name, int64_t min, int64_t max, uint32_t input,
                           uint32_t dim) {
  plan.symbols.push_back({name, min, max, input, dim});
  return plan.exprs.symbol(static_cast<uint32_t>(plan.symbols.size() - 1));
}

ExprId PlanBuilder::sessionSymbol(const std::string &name, int64_t min, int64_t max,
                                  int64_t preset) {
  plan.symbols.push_back(
      {name, min, max, kNone, kNone, kNone, /*isOfSession=*/true, /*preset=*/preset});
  return plan.exprs.symbol(static_cast<uint32_t>(plan.symbols.size() - 1));
}

ExprId PlanBuilder::dataSymbol(const std::string &name, ExprId bound, int64_t max) {
  plan.symbols.push_back({name, 0, max, kNone, kNone, bound});
  return plan.exprs.symbol(static_cast<uint32_t>(plan.symbols.size() - 1));
}

ExprId PlanBuilder::bytesOf(DType dtype, const std::vector<ExprId> &dims) {
  ExprId bytes = size(bitWidth(dtype) / 8);
  for (ExprId dim : dims) {
    bytes = plan.exprs.mul(bytes, dim);
  }
  return bytes;
}

uint32_t PlanBuilder::input(const std::string &name, DType dtype, std::vector<ExprId> dims) {
  Buffer buffer;
  buffer.space = Space::Input;
  buffer.size = bytesOf(dtype, dims);
  plan.buffers.push_back(buffer);
  uint32_t index = static_cast<uint32_t>(plan.buffers.size() - 1);
  plan.inputs.push_back({name, dtype, std::move(dims), index});
  return index;
}

uint32_t PlanBuilder::output(const std::string &name, DType dtype, std::vector<ExprId> dims) {
  Buffer buffer;
  buffer.space = Space::Output;
  buffer.size = bytesOf(dtype, dims);
  plan.buffers.push_back(buffer);
  uint32_t index = static_cast<uint32_t>(plan.buffers.size() - 1);
  plan.outputs.push_back({name, dtype, std::move(dims), index});
  return index;
}

uint32_t PlanBuilder::weight(uint32_t index, int64_t bytes) {
  Buffer buffer;
  buffer.space = Space::Const;
  buffer.size = size(bytes);
  buffer.weight = index;
  plan.buffers.push_back(buffer);
  return static_cast<uint32_t>(plan.buffers.size() - 1);
}

uint32_t PlanBuilder::arena(ExprId bytes, uint32_t first, uint32_t last, int64_t offset) {
  Buffer buffer;
  buffer.size = bytes;
  buffer.firstUse = first;
  buffer.lastUse = last;
  buffer.offset = offset;
  plan.buffers.push_back(buffer);
  return static_cast<uint32_t>(plan.buffers.size() - 1);
}

uint32_t PlanBuilder::stateOf(ExprId bytes) {
  Buffer buffer;
  buffer.space = Space::State;
  buffer.size = bytes;
  plan.buffers.push_back(buffer);
  return static_cast<uint32_t>(plan.buffers.size() - 1);
}

uint32_t PlanBuilder::view(uint32_t base, ExprId offset, ExprId bytes) {
  Buffer buffer;
  buffer.space = plan.buffers[base].space;
  buffer.size = bytes;
  buffer.aliasOf = base;
  buffer.aliasOffset = offset;
  plan.buffers.push_back(buffer);
  return static_cast<uint32_t>(plan.buffers.size() - 1);
}

Instruction &PlanBuilder::launch(Kernel kernel, std::vector<uint32_t> reads,
                                 std::vector<uint32_t> writes, ExprId grid,
                                 std::vector<ExprId> sizes) {
  Instruction instruction;
  instruction.kind = InstructionKind::Launch;
  instruction.kernel = kernel;
  instruction.reads = static_cast<uint32_t>(reads.size());
  instruction.buffers = std::move(reads);
  instruction.buffers.insert(instruction.buffers.end(), writes.begin(), writes.end());
  instruction.sizes = std::move(sizes);
  instruction.grid = grid;
  instruction.label = kernelNames()[kernel];
  plan.instructions.push_back(std::move(instruction));
  return plan.instructions.back();
}

void PlanBuilder::copy(uint32_t from, uint32_t to, ExprId bytes) {
  Instruction instruction;
  instruction.kind = InstructionKind::Copy;
  instruction.buffers = {from, to};
  instruction.reads = 1;
  instruction.sizes = {bytes};
  instruction.label = "copy";
  plan.instructions.push_back(std::move(instruction));
}

void PlanBuilder::collective(CollectiveKind kind, uint32_t from, uint32_t to, ExprId elements) {
  Instruction instruction;
  instruction.kind = InstructionKind::Collective;
  instruction.collective = kind;
  instruction.dtype = DType::F32;
  instruction.buffers = {from, to};
  instruction.reads = 1;
  instruction.sizes = {elements};
  instruction.label = nameOf(kind);
  plan.instructions.push_back(std::move(instruction));
}

void PlanBuilder::bindSize(uint32_t from, uint32_t symbol) {
  Instruction size;
  size.kind = InstructionKind::Size;
  size.buffers = {from};
  size.reads = 1;
  size.symbol = symbol;
  size.label = "size";
  plan.instructions.push_back(size);
}

void PlanBuilder::finish() { plan.instructions.push_back({}); }

WeightData floats(const std::string &name, const std::vector<float> &values, uint32_t ranks) {
  WeightData data;
  data.ranks = ranks;
  data.name = name;
  data.bytes.resize(values.size() * sizeof(float));
  std::memcpy(data.bytes.data(), values.data(), data.bytes.size());
  return data;
}

TestEngine::TestEngine(Plan plan, std::vector<WeightData> data, const std::string &codeName)
    : code(codeObject(codeName)), weights(std::move(data)) {
  for (const WeightData &weight : weights) {
    content.weights.push_back({weight.name, weight.bytes.size() / weight.ranks, 0, weight.ranks});
  }
  content.variants.push_back({{"x86-64-v3", std::move(plan), kernelNames()}, code});
  content.records.push_back({"memory", "{\"arena\": 1}"});
  content.provenance = {"test", "model-hash", "{}"};
}

Result<EngineFileSize> TestEngine::write(const std::string &path) const {
  return writeEngine(path, content, [&](uint32_t index, uint32_t rank, const ByteSink &sink) {
    uint64_t bytes = content.weights[index].bytes;
    return sink(Bytes(weights[index].bytes).subspan(rank * bytes, bytes));
  });
}

std::string TestEngine::writeTemporary(const std::string &name) const {
  std::string path = temporaryPath(name);
  Result<EngineFileSize> written = write(path);
  EXPECT_TRUE(written.isOk()) << written.status().toString();
  return path;
}

namespace {

Plan productPlan(bool isDynamic) {
  PlanBuilder builder;
  ExprTable &exprs = builder.plan.exprs;
  ExprId batch = isDynamic ? builder.symbol("batch", 1, 64, 0, 0) : builder.size(4);
  uint32_t x = builder.input("x", DType::F32, {batch, builder.size(8)});
  uint32_t y = builder.output("y", DType::F32, {batch, builder.size(3)});
  uint32_t w = builder.weight(0, 8 * 3 * 4);
  ExprId elements = exprs.mul(batch, builder.size(8));
  uint32_t doubled = builder.arena(exprs.mul(elements, builder.size(4)), 0, 1, isDynamic ? -1 : 0);
  builder.plan.arenaBytes = isDynamic ? 0 : 4 * 8 * 4;
  builder.launch(Scale, {x}, {doubled}, elements);
  builder.launch(Product, {doubled, w}, {y}, batch, {builder.size(8), builder.size(3)});
  builder.finish();
  return builder.plan;
}

} // namespace

Plan dynamicPlan() { return productPlan(true); }

Plan staticPlan() { return productPlan(false); }

std::vector<WeightData> productWeights() {
  std::vector<float> values;
  for (int i = 0; i < 24; ++i) {
    values.push_back(static_cast<float>(i % 7) - 3);
  }
  return {floats("w", values)};
}

std::vector<float> expectedProduct(const std::vector<float> &input, float factor) {
  std::vector<float> result;
  for (size_t row = 0; row < input.size() / 8; ++row) {
    for (int column = 0; column < 3; ++column) {
      float sum = 0;
      for (int k = 0; k < 8; ++k) {
        sum += factor * input[row * 8 + k] * (static_cast<float>((k * 3 + column) % 7) - 3);
      }
      result.push_back(sum);
    }
  }
  return result;
}

} // namespace tenon::test

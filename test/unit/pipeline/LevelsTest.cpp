// A kernel that only some CPU levels can run: each level chooses for itself, levels that choose
// alike share regions and plans, and every level gives the same numbers. Relies on a table of
// families of its own.
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/pipeline/CodeTarget.h"
#include "compiler/pipeline/Pipeline.h"
#include "engine/Reader.h"
#include "test/unit/pipeline/TemporaryFolder.h"

#include "llvm/Support/JSON.h"

#include <gtest/gtest.h>

using namespace tenon;
using engine::CpuLevel;

namespace {

using codegen::FamilyMatch;
using codegen::cpu::KernelFamily;
using codegen::cpu::Region;

/// What the family for all regions does, by another name.
llvm::LogicalResult emitLoops(Region &region, const std::any &, const dispatch::KernelChoice &) {
  dispatch::KernelChoice loops{"tiled", {{"chunk", {4096}}}};
  return codegen::cpu::kTiled.emit(region, {}, loops);
}

FamilyMatch matchRelu(Region &region) {
  return codegen::cpu::firstOp<tn::ReluOp>(region.source) ? FamilyMatch::take(0)
                                                          : FamilyMatch::refuse("no relu");
}

double fast(Region &, const std::any &, const dispatch::KernelChoice &) { return 1e-12; }
double none(Region &, const std::any &, const dispatch::KernelChoice &) { return 0; }

constexpr KernelFamily kOfVnni = {.name = "planted",
                                  .what = "loops that only a level with VNNI takes",
                                  .features = engine::x86::kVnni,
                                  .match = matchRelu,
                                  .seconds = fast,
                                  .emit = emitLoops};

/// All families, behind one more.
class FamiliesWith {
public:
  explicit FamiliesWith(const KernelFamily &family) : rows{&family} {
    llvm::append_range(rows, codegen::cpu::kernelFamilies().families());
  }
  codegen::cpu::KernelFamilies table() const { return codegen::cpu::KernelFamilies(rows); }

private:
  std::vector<const KernelFamily *> rows;
};

Result<pipeline::CompileSummary> compileWith(const KernelFamily &family,
                                             const pipeline::CompileOptions &options) {
  FamiliesWith families(family);
  codegen::cpu::KernelFamilies table = families.table();
  pipeline::CompileHooks hooks;
  hooks.cpuFamilies = &table;
  return pipeline::compile(options, hooks);
}

pipeline::CompileOptions optionsFor(const std::string &output) {
  pipeline::CompileOptions options;
  options.model = TENON_SOURCE_DIR "/models/fashion_cnn.onnx";
  options.output = output;
  options.levels = {CpuLevel::X86_64_V3, CpuLevel::Avx512, CpuLevel::Avx512Vnni,
                    CpuLevel::Avx512VnniBf16};
  return options;
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Regions of a record "fusion" that the kernel computes.
int64_t regionsOf(std::string_view record, llvm::StringRef kernel) {
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(llvm::StringRef(record));
  EXPECT_TRUE(static_cast<bool>(json)) << llvm::toString(json.takeError());
  return llvm::count_if(*json->getAsObject()->getArray("regions"),
                        [&](const llvm::json::Value &region) {
                          return region.getAsObject()->getString("kernel") == kernel;
                        });
}

TEST(Levels, ThatChooseAlikeAreOneGroup) {
  std::vector<CpuLevel> all = optionsFor("").levels;
  EXPECT_EQ(1u, pipeline::groupsOfLevels(all).size());
  FamiliesWith families(kOfVnni);
  std::vector<std::vector<CpuLevel>> groups = pipeline::groupsOfLevels(all, families.table());
  ASSERT_EQ(2u, groups.size());
  EXPECT_EQ((std::vector{CpuLevel::X86_64_V3, CpuLevel::Avx512}), groups[0]);
  EXPECT_EQ((std::vector{CpuLevel::Avx512Vnni, CpuLevel::Avx512VnniBf16}), groups[1]);
}

TEST(Levels, AFamilyOfOneLevelIsChosenThereOnly) {
  TemporaryFolder folder;
  Result<pipeline::CompileSummary> plain = pipeline::compile(optionsFor(folder.path("plain")));
  ASSERT_TRUE(plain.isOk()) << plain.status().toString();
  Result<pipeline::CompileSummary> made = compileWith(kOfVnni, optionsFor(folder.path("engine")));
  ASSERT_TRUE(made.isOk()) << made.status().toString();
  Result<std::unique_ptr<engine::EngineFile>> file =
      engine::EngineFile::open(folder.path("engine"));
  ASSERT_TRUE(file.isOk()) << file.status().toString();
  ASSERT_EQ(4u, (*file)->variants().size());
  std::string_view others = *(*file)->record("fusion"),
                   own = *(*file)->record("fusion-avx512-vnni");
  EXPECT_TRUE(holds(others, "the level lacks avx512-vnni")) << others;
  EXPECT_EQ(0, regionsOf(others, "planted"));
  EXPECT_LT(0, regionsOf(own, "planted")) << own;
  EXPECT_FALSE((*file)->record("fusion-avx512-vnni-bf16").isOk());
  EXPECT_FALSE((*file)->record("fusion-avx512").isOk());
  // Weights that both read are there once; the planted family reads those of convolutions as they
  // lie.
  EXPECT_LT(made->weightsBytes, plain->weightsBytes * 5 / 4);
}

TEST(Levels, APredictionOfNothingIsAFault) {
  TemporaryFolder folder;
  KernelFamily free = kOfVnni;
  free.seconds = none;
  Status status = compileWith(free, optionsFor(folder.path("engine"))).takeStatus();
  EXPECT_EQ(ErrorId::CodegenFailed, status.id());
  EXPECT_TRUE(holds(status.message(), "is no time")) << status.message();
}

} // namespace

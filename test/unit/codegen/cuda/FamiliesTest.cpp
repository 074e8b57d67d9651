// The table of kernel families: every configuration that a family lists computes its region, the
// choice goes through its attribute and its text unchanged, and what was not chosen is never
// emitted.
#include "test/unit/codegen/cpu/AttentionText.h"
#include "test/unit/codegen/cuda/GeluGemm.h"
#include "test/unit/codegen/cuda/OpenedRegion.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/KernelFamily.h"

#include <cmath>

namespace tenon::codegen::cuda {
namespace {

using dispatch::KernelChoice;
using dispatch::KernelSelection;

std::string simtGemm(int64_t rows, int64_t columns, int64_t depth,
                     const std::string &element = "f16") {
  auto tensor = [&](int64_t a, int64_t b) {
    return "tensor<" + std::to_string(a) + "x" + std::to_string(b) + "x" + element + ">";
  };
  std::string a = tensor(rows, depth), b = tensor(depth, columns), y = tensor(rows, columns);
  return regionText("contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
                    "%0 = tn.matmul %a, %b : (" + a + ", " + b + ") -> " + y +
                        "\nreturn %0 : " + y);
}

/// Rows by weights that lie as [columns, depth].
std::string fewRows(int64_t rows, int64_t columns, int64_t depth) {
  auto tensor = [](int64_t a, int64_t b) {
    return "tensor<" + std::to_string(a) + "x" + std::to_string(b) + "xf16>";
  };
  std::string a = tensor(rows, depth), w = tensor(columns, depth), y = tensor(rows, columns);
  return regionText("contraction", "(%a: " + a + ", %w: " + w + " {tn.constant}) -> " + y,
                    "%0 = tn.matmul %a, %w {transposeB} : (" + a + ", " + w + ") -> " + y +
                        "\nreturn %0 : " + y);
}

/// A region whose diagnostics are kept.
struct Parsed : OpenedRegion {
  explicit Parsed(const std::string &text, const char *archName = "sm_90a")
      : OpenedRegion(text, target::targetOf(archName)),
        handler(&context,
                [this](mlir::Diagnostic &diagnostic) {
                  problem += diagnostic.str();
                  return mlir::success();
                }),
        gpu(target::targetOf(archName)) {}

  std::string problem;
  mlir::ScopedDiagnosticHandler handler;
  const target::Target &gpu;
};

KernelSelection selected(const std::string &text, const dispatch::KernelRequest &request = {}) {
  Parsed parsed(text);
  llvm::Expected<KernelSelection> selection = kernelFamilies().select(*parsed.region, request);
  if (!selection) {
    ADD_FAILURE() << llvm::toString(selection.takeError());
    return KernelSelection();
  }
  return *selection;
}

/// The verdict on a family, or "not asked".
std::string verdictOn(const KernelSelection &selection, llvm::StringRef family) {
  for (const dispatch::CandidateRecord &candidate : selection.candidates) {
    if (llvm::StringRef(candidate.kernel).split('{').first == family) {
      return candidate.verdict;
    }
  }
  return "not asked";
}

TEST(KernelFamilies, HaveNamesAndWords) {
  std::set<std::string> names;
  for (const KernelFamily *family : kernelFamilies().families()) {
    EXPECT_TRUE(names.insert(family->name.str()).second) << family->name.str();
    EXPECT_FALSE(family->what.empty()) << family->name.str();
    EXPECT_EQ(kernelFamilies().find(family->name), family);
  }
  EXPECT_EQ(kernelFamilies().find("no such family"), nullptr);
}

TEST(KernelFamilies, ChoicesGoThroughTextAndAttribute) {
  for (const std::string &text :
       {geluGemm("f16", 128, 64, 256, RightStored::ColumnsFirst), simtGemm(40, 72, 136)}) {
    KernelChoice choice = selected(text).chosen;
    llvm::Expected<KernelChoice> read = KernelChoice::parse(choice.text());
    ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError());
    EXPECT_EQ(*read, choice);
    mlir::MLIRContext context;
    llvm::Expected<KernelChoice> again = KernelChoice::fromAttribute(choice.toAttribute(&context));
    ASSERT_TRUE(static_cast<bool>(again)) << llvm::toString(again.takeError());
    EXPECT_EQ(*again, choice);
  }
}

/// Runs every configuration that the family lists on the emulated GPU.
void expectAllRight(const std::string &text, const KernelFamily &family, size_t least) {
  Parsed parsed(text);
  FamilyMatch match = kernelFamilies().match(family, *parsed.region);
  ASSERT_TRUE(match) << match.why;
  std::vector<KernelChoice> configs = kernelFamilies().configsOf(family, *parsed.region, match);
  EXPECT_GE(configs.size(), least);
  for (const KernelChoice &choice : configs) {
    Emitter emitter = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
      if (failed(kernelFamilies().emit(region, choice))) {
        return mlir::failure();
      }
      return true;
    };
    EXPECT_TRUE(matchesReference(text, emitter, warpgroupOptions())) << choice.text();
  }
}

TEST(KernelFamilies, EveryConfigurationOfGemmSkinnyIsRight) {
  expectAllRight(geluGemm("f16", 77, 64, 256, RightStored::ColumnsFirst), kGemmSkinny, 12);
}

TEST(KernelFamilies, EveryConfigurationOfGemmTensorCoreIsRight) {
  expectAllRight(simtGemm(40, 72, 136), kGemmTensorCore, 24);
}

/// Constants lie as [columns, depth] where that gives copies more bytes, and stay where it does
/// not.
TEST(KernelFamilies, GemmTensorCoreLaysOutWeightsForWiderCopies) {
  auto isLaidOut = [](int64_t columns, int64_t depth) {
    std::string text = simtGemm(40, columns, depth);
    text.insert(text.find(") -> "), " {tn.constant, tn.packable}");
    Parsed parsed(text);
    FamilyMatch match = kernelFamilies().match(kGemmTensorCore, *parsed.region);
    std::optional<dispatch::WeightLayout> layout =
        kernelFamilies().weightsOf(kGemmTensorCore, *parsed.region, match);
    tn::Packing columnsFirst{.outerDimsPerm = {1, 0}, .innerDimsPos = {}, .innerTiles = {}};
    EXPECT_TRUE(!layout || layout->packing == columnsFirst);
    return layout.has_value();
  };
  EXPECT_FALSE(isLaidOut(40, 72)); // on borders of 16 bytes as they are
  for (int64_t columns : {41, 42, 44, 1001}) {
    EXPECT_TRUE(isLaidOut(columns, 72)) << columns;
  }
  EXPECT_TRUE(isLaidOut(41, 36));
  EXPECT_FALSE(isLaidOut(42, 33));
  EXPECT_FALSE(isLaidOut(41, 33));
}

TEST(KernelFamilies, EveryConfigurationOfGemmSimtIsRight) {
  expectAllRight(simtGemm(70, 77, 33, "f32"), kGemmSimt, 2);
}

TEST(KernelFamilies, EveryConfigurationOfGemvIsRight) {
  expectAllRight(fewRows(3, 40, 264), kGemv, 3);
  expectAllRight(fewRows(11, 24, 1056), kGemv, 3);
}

TEST(KernelFamilies, EveryConfigurationOfFlashAttentionIsRight) {
  expectAllRight(attentionText(plainAttention("f16", 1, 2, 70, 150, 64, 64)), kAttentionFlash, 10);
  expectAllRight(attentionText(plainAttention("bf16", 1, 2, 3, 300, 64, 64)), kAttentionFlash, 8);
  expectAllRight(attentionText(plainAttention("f16", 1, 1, 40, 60, 128, 96)), kAttentionFlash, 4);
}

TEST(KernelFamilies, EveryConfigurationOfColumnsIsRight) {
  for (const char *dims : {"2x70x24", "600x16"}) {
    std::string x = "tensor<" + std::string(dims) + "xf16>";
    std::string axis = std::to_string(llvm::StringRef(dims).count('x') - 1);
    expectAllRight(
        regionText("rows", "(%a: " + x + ") -> " + x,
                   "%0 = tn.softmax %a {axis = " + axis + " : i64} : " + x + "\nreturn %0 : " + x),
        kColumnsTiled, 2);
  }
}

TEST(KernelFamilies, EveryConfigurationOfConvDepthwiseIsRight) {
  std::string x = "tensor<1x9x11x16xf16>", w = "tensor<16x1x3x5xf16>";
  expectAllRight(
      regionText("single", "(%x: " + x + ", %w: " + w + ") -> " + x,
                 "%0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 2, 1, 2>, "
                 "dilations = array<i64: 1, 1>, groups = 16 : i64, channelsLast = true} : (" +
                     x + ", " + w + ") -> " + x + "\nreturn %0 : " + x),
      kConvDepthwise, 3);
}

/// Times rise with sizes, and none is clearly less than that of the chosen kernel.
TEST(KernelFamilies, ThePredictedTimesDecide) {
  double before = 0;
  for (int64_t rows : {32, 128, 512, 2048}) {
    KernelSelection selection = selected(simtGemm(rows, 768, 1024));
    double least = HUGE_VAL, chosen = 0;
    for (const dispatch::CandidateRecord &candidate : selection.candidates) {
      if (candidate.verdict == "refused") {
        continue;
      }
      EXPECT_GT(candidate.microseconds, 0) << candidate.kernel;
      least = std::min(least, candidate.microseconds);
      chosen = candidate.verdict == "chosen" ? candidate.microseconds : chosen;
    }
    EXPECT_LE(chosen * dispatch::kSwitchMargin, least) << rows;
    EXPECT_GT(chosen, before) << rows;
    before = chosen;
  }
}

std::string smallConvText() {
  std::string x = "tensor<4x28x28x64xf16>", w = "tensor<96x64x3x3xf16>",
              y = "tensor<4x28x28x96xf16>";
  return regionText("contraction", "(%x: " + x + ", %w: " + w + " {tn.constant}) -> " + y,
                    "%0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, "
                    "1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (" +
                        x + ", " + w + ") -> " + y + "\nreturn %0 : " + y);
}

/// Of every configuration of whatever family says its parts: they are positive, and their sum is
/// what decides.
TEST(KernelFamilies, PartsAddUpToThePrediction) {
  std::set<std::string> said;
  for (const std::string &text :
       {simtGemm(2048, 768, 1024), simtGemm(40, 72, 136), simtGemm(70, 77, 33, "f32"),
        geluGemm("f16", 128, 768, 256, RightStored::ColumnsFirst),
        geluGemm("f16", 24576, 4096, 1024, RightStored::ColumnsFirst), fewRows(3, 4096, 2048),
        attentionText(plainAttention("f16", 8, 12, 128, 128, 64, 64)), smallConvText()}) {
    Parsed parsed(text);
    for (const KernelFamily *family : kernelFamilies().families()) {
      FamilyMatch match = kernelFamilies().match(*family, *parsed.region);
      if (!match) {
        continue;
      }
      for (const KernelChoice &choice :
           kernelFamilies().configsOf(*family, *parsed.region, match)) {
        dispatch::TimeParts time = kernelFamilies().timeOf(*family, *parsed.region, match, choice);
        if (time.parts.empty()) {
          continue;
        }
        said.insert(family->name.str());
        llvm::Expected<double> predicted =
            kernelFamilies().microsecondsOf(*family, *parsed.region, match, choice);
        ASSERT_TRUE(static_cast<bool>(predicted)) << llvm::toString(predicted.takeError());
        EXPECT_NEAR(time.microseconds(), *predicted, 1e-6 * *predicted) << choice.text();
        for (const dispatch::TimePart &part : time.parts) {
          EXPECT_GT(part.microseconds, 0) << choice.text() << " " << part.name;
        }
        if (family->parts && family->seconds && choice == *match.choice) {
          EXPECT_NEAR(family->parts(*parsed.region, match.problem, choice).microseconds(),
                      family->seconds(*parsed.region, match.problem, choice) * 1e6,
                      1e-6 * *predicted)
              << choice.text() << ": unweighed";
        }
      }
    }
  }
  for (const char *family :
       {"gemv", "gemm_skinny", "cublaslt", "gemm_persistent", "gemm_tensorcore", "gemm_simt",
        "conv_tensorcore", "attention_flash", "attention_simt", "pointwise"}) {
    EXPECT_TRUE(said.contains(family)) << family;
  }
}

/// 96 tiles of 128 x 64 leave 36 of 132 multiprocessors without one; 192 leave 72 in a second wave.
TEST(KernelFamilies, BlocksThatDoNotFillAWaveAreIdleTime) {
  auto idleOf = [](int64_t rows) {
    Parsed parsed(simtGemm(rows, 1024, 1024));
    KernelChoice wanted{
        "gemm_tensorcore",
        {{"tile", {128, 64, 64}}, {"warp", {32, 32}}, {"stages", {3}}, {"split_k", {1}}}};
    FamilyMatch match = kernelFamilies().match(kGemmTensorCore, *parsed.region);
    dispatch::TimeParts time =
        kernelFamilies().timeOf(kGemmTensorCore, *parsed.region, match, wanted);
    EXPECT_EQ(time.blocks, rows / 128 * 16);
    EXPECT_EQ(time.atOnce, 132);
    EXPECT_EQ(time.steps, 16);
    double idle = 0, start = 0;
    for (const dispatch::TimePart &part : time.parts) {
      idle = part.name == "idle" ? part.microseconds : idle;
      start = part.name == "start" ? part.microseconds : start;
    }
    return idle / (time.microseconds() - start);
  };
  EXPECT_NEAR(idleOf(768), 36.0 / 132, 1e-6);
  EXPECT_NEAR(idleOf(1536), 72.0 / 264, 1e-6);
}

TEST(KernelFamilies, TheUserChoosesAmongThem) {
  std::string text = geluGemm("f16", 128, 64, 256, RightStored::ColumnsFirst);
  KernelSelection own = selected(text);
  EXPECT_EQ(own.chosen.family, "gemm_skinny");
  EXPECT_EQ(verdictOn(own, "gemm_tensorcore"), "possible");
  EXPECT_EQ(verdictOn(own, "gemv"), "refused");
  EXPECT_EQ(verdictOn(own, "attention_flash"), "not asked");

  KernelChoice other{"gemm_tensorcore", {{"split_k", {2}}}};
  KernelSelection wanted = selected(text, {&other, {}});
  EXPECT_EQ(wanted.chosen.family, "gemm_tensorcore");
  EXPECT_EQ(wanted.chosen.parameters["split_k"], KernelChoice::Numbers{2});

  const std::string disabled = "gemm_skinny";
  KernelSelection without = selected(text, {nullptr, disabled});
  EXPECT_NE(without.chosen.family, "gemm_skinny");
  EXPECT_EQ(verdictOn(without, "gemm_skinny"), "disabled");
}

TEST(KernelFamilies, WhatDoesNotFitIsRefused) {
  std::string text = geluGemm("f16", 128, 64, 256, RightStored::ColumnsFirst);
  for (const KernelChoice &wrong :
       {KernelChoice{"gemm_skinny", {{"stages", {99}}}},
        KernelChoice{"gemm_skinny", {{"tile", {64}}}},
        KernelChoice{"gemm_skinny", {{"no_such", {1}}}}, KernelChoice{"gemv", {}},
        KernelChoice{"attention_flash", {}}}) {
    Parsed parsed(text);
    llvm::Expected<KernelSelection> selection =
        kernelFamilies().select(*parsed.region, {&wrong, {}});
    EXPECT_FALSE(static_cast<bool>(selection)) << wrong.text();
    EXPECT_FALSE(llvm::toString(selection.takeError()).empty()) << wrong.text();
  }
}

/// A choice that cannot be emitted is a fault with words; no other family is tried.
TEST(KernelFamilies, WhatWasNotChosenIsNotEmitted) {
  std::string text = geluGemm("f16", 128, 64, 256, RightStored::ColumnsFirst);
  for (const KernelChoice &wrong :
       {KernelChoice{"gemv", {}}, KernelChoice{"gemm_skinny", {}}, KernelChoice{"unknown", {}},
        KernelChoice{"pointwise", {{"tile", {1}}}}}) {
    Parsed parsed(text);
    parsed.region->source->setAttr(kKernelAttribute, wrong.toAttribute(&parsed.context));
    EXPECT_TRUE(failed(lowerRegion(*parsed.region))) << wrong.text();
    EXPECT_FALSE(parsed.problem.empty()) << wrong.text();
    EXPECT_TRUE(parsed.region->code.steps.empty()) << wrong.text();
  }
  Parsed bare(text);
  EXPECT_TRUE(failed(lowerRegion(*bare.region)));
}

TEST(KernelChoices, TextThatDoesNotReadIsRefused) {
  for (const char *text :
       {"", "{}", "gemv{", "gemv}", "gemv{tile}", "gemv{tile=}", "gemv{tile=ax3}",
        "gemv{tile=1,tile=2}", "ge mv{tile=1}", "gemv{=1}", "gemv{tile=1}x"}) {
    llvm::Expected<KernelChoice> choice = KernelChoice::parse(text);
    EXPECT_FALSE(static_cast<bool>(choice)) << text;
    llvm::consumeError(choice.takeError());
  }
  llvm::Expected<KernelChoice> choice = KernelChoice::parse(" gemv{ tile = 1x2 , stages=3}");
  ASSERT_TRUE(static_cast<bool>(choice)) << llvm::toString(choice.takeError());
  EXPECT_EQ(choice->text(), "gemv{stages=3,tile=1x2}");
}

} // namespace
} // namespace tenon::codegen::cuda

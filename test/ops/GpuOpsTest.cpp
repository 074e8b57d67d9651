// Every row of the table as GPU code: its numbers on the emulated GPU, and its PTX through the
// assembler where there is one. Relies on OpsTest for the rows themselves.
#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/reference/Compare.h"
#include "test/ops/RowCase.h"
#include "test/unit/codegen/SelectedText.h"
#include "test/unit/codegen/emulator/EmulatedRegion.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include <map>
#include <mutex>
#include <sstream>

namespace tenon::ops {
namespace {

using codegen::RegionSource;
using llvm::ArrayRef;

std::vector<std::string> words(const char *text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) {
    list.push_back(word);
  }
  return list;
}

Status fault(const std::string &text) { return Status::error(ErrorId::InternalError, text); }

/// PTX of the cells so far, by architecture and whether it is of f64; assembled at the end, all of
/// a kind at once.
std::map<std::pair<std::string, bool>, std::vector<std::string>> assembled;

/// Compiles a region for one architecture in turn.
Status addPtx(const RegionSource &source) {
  static size_t number = 0;
  const target::Target &gpu =
      target::targetOf(engine::kCudaArchs[number % engine::kCudaArchs.size()]);
  std::string symbol = "cell" + std::to_string(number++);
  llvm::Expected<codegen::CompiledRegion> compiled =
      codegen::cuda::compileRegion(codegen::selectedForCuda(source.text, gpu), symbol, gpu);
  if (!compiled) {
    return fault(llvm::toString(compiled.takeError()) + " in\n" + source.text);
  }
  bool isDouble = source.text.find("xf64") != std::string::npos ||
                  source.text.find("<f64") != std::string::npos;
  assembled[{std::string(gpu.variant()), isDouble}].push_back(std::move(compiled->object));
  return Status::ok();
}

Result<Tensors> runOnGpu(const RegionSource &source, ArrayRef<reference::Tensor> operands,
                         const Tensors &results, const std::vector<int64_t> &symbols) {
  TENON_TRY(addPtx(source));
  llvm::Expected<Tensors> outputs =
      codegen::cuda::runEmulated(source.text, operands, results, symbols);
  if (!outputs) {
    return fault(llvm::toString(outputs.takeError()) + " in\n" + source.text);
  }
  return std::move(*outputs);
}

testing::AssertionResult agrees(const OpRow &row, const std::string &dtype, Form form) {
  Result<std::unique_ptr<RowCase>> made = RowCase::make(row, dtype, form);
  if (!made) {
    return testing::AssertionFailure() << made.status().message();
  }
  Result<Tensors> expected = (*made)->runReference();
  if (!expected) {
    return testing::AssertionFailure() << "reference: " << expected.status().message();
  }
  if (Status status = (*made)->prepare(target::targetOf("sm_90")); !status) {
    return testing::AssertionFailure() << status.message();
  }
  Result<Tensors> actual = (*made)->runRegions(runOnGpu);
  if (!actual) {
    return testing::AssertionFailure() << actual.status().message();
  }
  for (size_t i = 0; i < expected->size(); ++i) {
    reference::Comparison comparison = reference::compareTensors((*expected)[i], (*actual)[i]);
    if (!comparison.equal()) {
      return testing::AssertionFailure()
             << "result " << i << ": " << comparison.text((*expected)[i].dims());
    }
  }
  return testing::AssertionSuccess();
}

/// What is pending on the CPU is pending here: both expand the same formulas.
void expectAgreement(const OpRow &row, const std::string &dtype, Form form) {
  bool isPending = llvm::any_of(row.pending, [&](const Pending &each) {
    return each.form == form && (!each.dtype || each.dtype == dtype);
  });
  testing::AssertionResult result = agrees(row, dtype, form);
  EXPECT_EQ(static_cast<bool>(result), !isPending)
      << row.op << " of " << dtype << ", " << nameOf(form) << ": " << result.message();
}

class GpuOpTest : public testing::TestWithParam<size_t> {
protected:
  static void TearDownTestSuite() {
    for (const auto &[kind, modules] : assembled) {
      llvm::SmallVector<llvm::StringRef> objects(modules.begin(), modules.end());
      llvm::Expected<std::string> ptx = codegen::cuda::linkPtx(objects);
      ASSERT_TRUE(static_cast<bool>(ptx)) << llvm::toString(ptx.takeError());
      ptx->pop_back();
      testing::AssertionResult result =
          codegen::cuda::assembles(*ptx, target::targetOf(kind.first));
      // Kernels that take f64 may spill.
      bool onlySpills = llvm::StringRef(result.message()).contains("spilled");
      EXPECT_TRUE(result || (kind.second && onlySpills)) << kind.first << ": " << result.message();
    }
  }
};

TEST_P(GpuOpTest, AgreesWithTheReference) {
  const OpRow &row = opTable()[GetParam()];
  std::vector<std::string> dtypes = words(row.dtypes);
  for (Form form : {Form::Static, Form::Dynamic, Form::Constant}) {
    if (form != Form::Constant || !row.operands.empty()) {
      expectAgreement(row, dtypes[0], form);
    }
  }
  for (size_t i = 1; i < dtypes.size(); ++i) {
    expectAgreement(row, dtypes[i], Form::Dynamic);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, GpuOpTest, testing::Range<size_t>(0, opTable().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           std::string name = std::string(opTable()[info.param].op).substr(3);
                           return name + "_" + std::to_string(info.param);
                         });

} // namespace
} // namespace tenon::ops

// Relies on the reference interpreter for the truth, and on Noise for what rounding may do to it.
#include "test/random/Oracle.h"

#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/reference/Compare.h"
#include "compiler/reference/Interpreter.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/core/Session.h"
#include "support/Text.h"
#include "test/random/Faults.h"
#include "test/random/Noise.h"
#include "tools/tenon/Npy.h"

#include <filesystem>
#include <fstream>

using namespace mlir;

namespace tenon::random {
namespace {

using reference::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int kSamples = 24;

/// What the seed decides beside the model.
struct Setting {
  std::vector<engine::CpuLevel> levels;
  std::vector<engine::CudaArch> archs;
  unsigned threads = 1;
  bool optimize = true;
  bool isSymbolic = true;

  std::string text() const {
    return strCat(archs.empty() ? engine::nameOf(levels.front()) : archs.front().name, ", ", threads, " threads, ",
                  optimize ? "optimized" : "as imported", isSymbolic ? ", symbolic" : ", constant sizes");
  }
};

Setting settingOf(uint64_t seed, const OracleOptions &options) {
  Draw draw(seed ^ 0x5e77);
  Setting setting{.levels = {draw.of(options.levels)}, .archs = options.archs};
  if (!options.archs.empty()) {
    setting.levels.clear();
  }
  setting.threads = static_cast<unsigned>(draw.within(1, 2));
  setting.optimize = draw.chance(0.8);
  setting.isSymbolic = draw.chance(0.8);
  return setting;
}

/// What the seed gives the inputs.
std::vector<std::string> inputBytes(const Model &model, uint64_t seed) {
  Draw draw(seed ^ 0x1a9u);
  std::vector<std::string> inputs;
  for (const Port &port : model.inputs) {
    inputs.push_back(encode(port.value.type, elementsOf(draw, port.value.type, port.value.count(), port.content)));
  }
  return inputs;
}

/// The import with every size a constant, and what it gives for the inputs of the seed.
class Truth {
public:
  Truth() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<tn::TnDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([](Diagnostic &) { return success(); });
  }

  Status import(const Model &model) {
    onnx::ImportOptions options;
    for (const Port &port : model.inputs) {
      onnx::ShapeOverride shape{.input = port.value.name, .dims = {}};
      for (int64_t size : port.value.sizes) {
        shape.dims.push_back({onnx::DimOverride::Kind::Constant, size, size});
      }
      options.shapes.push_back(std::move(shape));
    }
    TENON_ASSIGN(imported, onnx::importOnnx(std::as_bytes(std::span(model.bytes)), "", options, context, store));
    return imported.gaps.empty() ? Status::ok() : Status::error(ErrorId::ModelHasGaps, imported.gaps.front().why);
  }

  Status draw(const Model &model, uint64_t seed) {
    std::vector<std::string> drawn = inputBytes(model, seed);
    for (auto [port, bytes] : llvm::zip_equal(model.inputs, drawn)) {
      TENON_ASSIGN(Tensor tensor, Tensor::copy(port.value.type, port.value.sizes, {bytes.data(), bytes.size()}));
      inputs.push_back(std::move(tensor));
    }
    return Status::ok();
  }

  func::FuncOp function() { return *imported.module->getOps<func::FuncOp>().begin(); }
  Result<Tensors> evaluate() {
    reference::Interpreter interpreter(&store, {.threads = 1});
    return interpreter.evaluate(function(), inputs);
  }
  /// The first difference that rounding does not explain.
  std::string difference(const Tensors &expected, const Tensors &actual, uint64_t seed) {
    for (size_t i = 0; i < expected.size(); ++i) {
      if (reference::compareTensors(expected[i], actual[i]).equal()) {
        continue;
      }
      if (samples.empty()) {
        samples.push_back(expected);
        for (int s = 0; s < kSamples; ++s) {
          Result<Tensors> sample = disturbedResults(function(), store, inputs, seed + s);
          if (sample) {
            samples.push_back(std::move(*sample));
          }
        }
      }
      std::vector<Tensor> column;
      for (const Tensors &sample : samples) {
        column.push_back(sample[i]);
      }
      std::string text = unexplained(column, actual[i]);
      if (!text.empty()) {
        return strCat("output ", i, ": ", text);
      }
    }
    return "";
  }

  Tensors inputs;

private:
  MLIRContext context;
  tn::WeightStore store;
  onnx::ImportResult imported;
  std::vector<Tensors> samples;
};

Result<pipeline::CompileSummary> compileModel(const Model &model, const Setting &setting, const OracleOptions &options,
                                              bool &isTouched) {
  pipeline::CompileOptions compile;
  compile.model = options.scratchFolder + "/model.onnx";
  compile.output = options.scratchFolder + "/model.tenon";
  std::ofstream(compile.model, std::ios::binary) << model.bytes;
  for (const Port &port : model.inputs) {
    pipeline::ShapeOption shape{.input = port.value.name, .dims = {}};
    for (auto [dim, size] : llvm::zip_equal(port.value.dims, port.value.sizes)) {
      pipeline::ShapeOption::Dim range{size, size};
      for (const Symbol &symbol : model.symbols) {
        if (setting.isSymbolic && dim == Dim(symbol.name)) {
          range = {symbol.min, symbol.max};
        }
      }
      shape.dims.push_back(range);
    }
    compile.shapes.push_back(std::move(shape));
  }
  compile.levels = setting.levels;
  compile.archs = setting.archs;
  compile.optimize = setting.optimize;
  compile.threads = 1;
  compile.cacheFolder = options.scratchFolder + "/cache";
  if (!options.fault.empty()) {
    compile.afterPhase = [&](pipeline::Phase phase, ModuleOp module) {
      isTouched = plantFault(options.fault, phase, module) || isTouched;
    };
    pipeline::CompileOptions dry = compile;
    dry.stopAfter = pipeline::Phase::Dispatch;
    dry.output.clear();
    Result<pipeline::CompileSummary> summary = pipeline::compile(dry);
    if (!summary || !isTouched) {
      return summary;
    }
  }
  return pipeline::compile(compile);
}

Result<Tensors> run(const Setting &setting, const OracleOptions &options, const Tensors &inputs) {
  runtime::EngineOptions engineOptions;
  engineOptions.variant = setting.archs.empty() ? engine::nameOf(setting.levels.front()) : setting.archs.front().name;
  engineOptions.cacheFolder = "";
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine,
               runtime::Engine::open(options.scratchFolder + "/model.tenon", engineOptions));
  runtime::SessionOptions sessionOptions;
  sessionOptions.threads = setting.threads;
  TENON_ASSIGN(std::unique_ptr<runtime::Session> session, runtime::Session::create(engine, sessionOptions));
  std::vector<std::span<const int64_t>> dims;
  std::vector<runtime::InputBinding> bindings;
  for (const Tensor &input : inputs) {
    dims.push_back(std::span(input.dims().data(), input.dims().size()));
    bindings.push_back({input.bytes(), dims.back()});
  }
  TENON_TRY(session->prepare(dims));
  Tensors outputs;
  std::vector<runtime::OutputBinding> places;
  for (size_t i = 0; i < engine->plan().outputs.size(); ++i) {
    std::span<const int64_t> shape = session->outputDims(i);
    TENON_ASSIGN(Tensor output,
                 Tensor::create(engine->plan().outputs[i].dtype, ArrayRef(shape.data(), shape.size())));
    std::memset(output.mutableBytes(), 0x7f, output.byteCount());
    outputs.push_back(std::move(output));
  }
  for (Tensor &output : outputs) {
    places.push_back({output.mutableBytes(), output.byteCount()});
  }
  TENON_TRY(session->run(bindings, places));
  return outputs;
}

Outcome compare(const Model &model, uint64_t seed, const OracleOptions &options, Truth &truth) {
  Setting setting = settingOf(seed, options);
  Status imported = truth.import(model);
  if (!imported) {
    return {Verdict::Refused, imported.toString()};
  }
  if (Status drawn = truth.draw(model, seed); !drawn) {
    return {Verdict::Different, drawn.toString()};
  }
  Result<Tensors> expected = truth.evaluate();
  bool isTouched = options.fault.empty();
  Result<pipeline::CompileSummary> compiled = compileModel(model, setting, options, isTouched);
  auto different = [&](const std::string &what) {
    return Outcome{Verdict::Different, strCat("(", setting.text(), ") ", what)};
  };
  if (!compiled && compiled.status().code() == Code::Unsupported) {
    return {Verdict::Refused, compiled.status().toString()};
  }
  if (!isTouched) {
    return {Verdict::Untouched, ""};
  }
  if (!compiled) {
    return different(compiled.status().toString());
  }
  Result<Tensors> actual = run(setting, options, truth.inputs);
  if (!expected || !actual) {
    ErrorId left = expected ? ErrorId::None : expected.status().id();
    ErrorId right = actual ? ErrorId::None : actual.status().id();
    bool isSame = left == right;
    return isSame ? Outcome{}
                  : different(strCat("reference: ", expected ? "results" : expected.status().toString(),
                                     "; engine: ", actual ? "results" : actual.status().toString()));
  }
  std::string difference = actual->size() == expected->size() ? truth.difference(*expected, *actual, seed)
                                                               : std::string("other outputs");
  return difference.empty() ? Outcome{} : different(difference);
}

} // namespace

void dumpModel(const Model &model, uint64_t seed, const std::string &text, const std::string &folder) {
  std::string place = strCat(folder, '/', seed);
  std::filesystem::create_directories(place);
  std::ofstream(place + "/model.onnx", std::ios::binary) << model.bytes;
  std::ofstream(place + "/difference.txt") << text << '\n';
  std::vector<tool::Tensor> arrays;
  std::vector<std::string> inputs = inputBytes(model, seed);
  for (auto [port, bytes] : llvm::zip_equal(model.inputs, inputs)) {
    Result<tool::Tensor> array = tool::Tensor::create(port.value.name, port.value.type, port.value.sizes);
    if (array && !bytes.empty()) {
      std::memcpy(array->data.data(), bytes.data(), bytes.size());
      arrays.push_back(std::move(*array));
    }
  }
  (void)tool::writeNpz(place + "/inputs.npz", arrays);
}

Outcome checkModel(const Model &model, uint64_t seed, const OracleOptions &options) {
  Truth truth;
  Outcome outcome = compare(model, seed, options, truth);
  if (outcome.verdict == Verdict::Different && !options.fault.empty()) {
    // What differs without the fault too does not show that it was found.
    OracleOptions sound = options;
    sound.fault.clear();
    sound.dumpFolder.clear();
    if (checkModel(model, seed, sound).verdict != Verdict::Same) {
      outcome.verdict = Verdict::Untouched;
    }
  }
  if (outcome.verdict == Verdict::Different && !options.dumpFolder.empty()) {
    dumpModel(model, seed, outcome.text, options.dumpFolder);
  }
  return outcome;
}

} // namespace tenon::random

// Words and notes of the pipeline. Relies on locations naming model nodes.
#include "compiler/pipeline/Reports.h"

#include "compiler/dispatch/Names.h"
#include "compiler/graph/DataSizes.h"
#include "compiler/graph/DimText.h"
#include "support/text/ExportGuard.h"
#include "support/text/Printable.h"
#include "support/text/Text.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <sstream>

using namespace mlir;

namespace tenon::pipeline {

std::vector<frontend::ShapeOverride> toOverrides(const std::vector<ShapeArgument> &shapes) {
  std::vector<frontend::ShapeOverride> overrides;
  for (const ShapeArgument &shape : shapes) {
    frontend::ShapeOverride entry{.input = shape.input, .dims = {}};
    for (const ShapeArgument::Dim &dim : shape.dims) {
      using Kind = frontend::DimOverride::Kind;
      Kind kind = dim.keep ? Kind::Keep : dim.min == dim.max ? Kind::Constant : Kind::Range;
      entry.dims.push_back({kind, dim.min, dim.max});
    }
    overrides.push_back(std::move(entry));
  }
  return overrides;
}

Status gapReport(const std::string &model, const std::vector<frontend::Gap> &gaps) {
  std::string text = withoutControls(strCat(model, ": Tenon does not support ", gaps.size(),
                                            gaps.size() == 1 ? " node:" : " nodes:"));
  for (const frontend::Gap &gap : gaps) {
    std::string domain = gap.domain.empty() ? "" : gap.domain + ".";
    std::string line = strCat("node '", gap.node, "': ", domain, gap.opType, " (opset ", gap.opset);
    if (!gap.dtype.empty()) {
      line += strCat(", ", gap.dtype);
    }
    if (gap.rank >= 0) {
      line += strCat(", rank ", gap.rank);
    }
    line += strCat("): ", gap.why);
    if (!gap.workaround.empty()) {
      line += strCat("; ", gap.workaround);
    }
    text += "\n  " + withoutControls(line);
  }
  return Status::error(ErrorId::ModelHasGaps, text, "tenon check prints the same list");
}

DiagnosticText::DiagnosticText(MLIRContext &context)
    : handler(&context, [this](Diagnostic &diagnostic) {
        if (text.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
          std::vector<std::string> nodes = dispatch::nodeNames(diagnostic.getLocation());
          text = (nodes.empty() ? "" : "'" + nodes.front() + "': ") + diagnostic.str();
        }
      }) {}

Status DiagnosticText::status(std::string_view pass) const {
  return Status::error(ErrorId::PassFailed,
                       strCat("pass '", pass, "': ", text.empty() ? "it gave no reason" : text),
                       "report this with the model");
}

Status checkDims(ModuleOp module) {
  Status status;
  module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      if (llvm::is_contained(tn::getDims(type), AffineExpr())) {
        status = Status::error(
            ErrorId::PassFailed,
            strCat("pass 'normalize': a dimension of the result of '", dispatch::nameOf(op),
                   "' depends on data and is not known before running"),
            tn::SymbolList(module).symbols().empty() ? "make it a constant, or a size of an input"
                                                     : "give the inputs fixed sizes with --shape");
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return status;
}

std::optional<std::string> metadataRecord(mlir::ModuleOp module) {
  mlir::DictionaryAttr texts = module->getAttrOfType<mlir::DictionaryAttr>("tn.metadata");
  if (!texts) {
    return std::nullopt;
  }
  llvm::json::Object object;
  for (mlir::NamedAttribute entry : texts) {
    if (mlir::StringAttr value = llvm::dyn_cast<mlir::StringAttr>(entry.getValue())) {
      object[llvm::json::fixUTF8(entry.getName().strref())] = llvm::json::fixUTF8(value.strref());
    }
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::json::Value(std::move(object));
  return text;
}

bool isPhaseDump(const std::string &path) { return path.ends_with(".mlir"); }

std::vector<Narrowing> narrowings(ModuleOp module) {
  std::vector<Narrowing> narrowed;
  tn::SymbolList symbols(module);
  llvm::MapVector<unsigned, Operation *> binders = tn::sizeBinders(module);
  for (const tn::Constraint &constraint : tn::constraintsOf(module)) {
    // Two dims that are equal are one size; what data decides is no size of an input.
    bool isOneSize = constraint.kind == tn::ConstraintKind::equal &&
                     isa<AffineSymbolExpr>(constraint.left) &&
                     isa<AffineSymbolExpr>(constraint.right);
    bool isOfData = llvm::any_of(binders, [&](const auto &binder) {
      return constraint.left.isFunctionOfSymbol(binder.first) ||
             constraint.right.isFunctionOfSymbol(binder.first);
    });
    if (std::optional<ExportGuard> guard = exportGuardOf(constraint.node)) {
      bool isNew = narrowed.empty() || narrowed.back().needs != guard->text;
      if (guard->unchecked.empty() && isNew) {
        narrowed.push_back({"", std::string(guard->text)});
      }
    } else if (!isOneSize && !isOfData) {
      narrowed.push_back({constraint.node, tn::constraintText(constraint, symbols.symbols())});
    }
  }
  return narrowed;
}

Status checkStrict(const CompileOptions &options, const std::vector<Narrowing> &narrowed) {
  if (!options.strict || narrowed.empty()) {
    return Status::ok();
  }
  std::string text = strCat(options.model, " accepts fewer sizes than declared");
  for (const Narrowing &narrowing : narrowed) {
    text += strCat(&narrowing == narrowed.data() ? ": " : "; ", narrowing.text());
  }
  return Status::error(ErrorId::SizesNarrowed, text,
                       "declare sizes that all nodes accept with --shape, or leave out --strict");
}

std::string noteOf(const CompileSummary &summary) {
  std::string note =
      strCat(summary.engineBytes, ' ', summary.weightsBytes, ' ', summary.regions, ' ',
             summary.uniqueRegions, ' ', summary.arenaBytes, ' ', summary.arenaLowerBoundBytes);
  note += strCat(' ', summary.weights.size());
  for (const WeightInfo &weights : summary.weights) {
    note += strCat(' ', weights.arrays, ' ', weights.bytes, ' ', weights.sourceBytes, ' ',
                   weights.form, '\n');
  }
  note += strCat(' ', summary.narrowed.size(), '\n');
  for (const Narrowing &narrowing : summary.narrowed) {
    note += strCat(withoutControls(narrowing.node), '\n', withoutControls(narrowing.needs), '\n');
  }
  return note;
}

std::optional<CompileSummary> summaryFromNote(std::string_view note) {
  CompileSummary summary;
  std::istringstream stream{std::string(note)};
  stream >> summary.engineBytes >> summary.weightsBytes >> summary.regions >>
      summary.uniqueRegions >> summary.arenaBytes >> summary.arenaLowerBoundBytes;
  size_t forms = 0;
  stream >> forms;
  for (size_t i = 0; i < forms && stream; ++i) {
    WeightInfo &weights = summary.weights.emplace_back();
    stream >> weights.arrays >> weights.bytes >> weights.sourceBytes >> std::ws;
    std::getline(stream, weights.form);
  }
  size_t narrowed = 0;
  stream >> narrowed;
  stream.ignore(); // the end of the line alone: a node may have no name
  for (size_t i = 0; i < narrowed && stream; ++i) {
    Narrowing &narrowing = summary.narrowed.emplace_back();
    std::getline(stream, narrowing.node);
    std::getline(stream, narrowing.needs);
  }
  return stream ? std::optional(summary) : std::nullopt;
}

} // namespace tenon::pipeline

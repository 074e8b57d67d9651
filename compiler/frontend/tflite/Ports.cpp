// Inputs, constants and outputs of the main graph, and the user's words about them.
#include "compiler/frontend/tflite/Node.h"
#include "mlir/IR/TypeUtilities.h"
#include "support/text/NearestName.h"
#include "support/text/Text.h"

#include <set>

using namespace mlir;

namespace tenon::tflite {
namespace {

frontend::Gap tensorGap(std::string_view kind, std::string name, const fb::Tensor &tensor) {
  frontend::Gap gap;
  gap.opType = kind;
  gap.domain = "tflite";
  gap.node = std::move(name);
  gap.dtype = typeName(tensor);
  gap.rank = static_cast<int>(sizeOf(tensor.shape()));
  gap.why = "Tenon does not have elements of this type";
  gap.workaround = "convert the model without it";
  return gap;
}

Status optionError(std::string_view input, std::string_view what) {
  return Status::error(ErrorId::OnnxBadOverride, strCat("option for input '", input, "': ", what),
                       "'tenon inspect MODEL' lists the inputs with their dimensions");
}

} // namespace

/// Sizes are those of the file: converters and runtimes plan memory by them.
Status Importer::checkShapeOption(const std::string &name, const fb::Tensor &tensor) const {
  for (const frontend::ShapeOverride &given : options.shapes) {
    if (given.input != name) {
      continue;
    }
    if (given.dims.size() != sizeOf(tensor.shape())) {
      return optionError(name, strCat("the model has ", sizeOf(tensor.shape()), " dimensions"));
    }
    for (auto [i, dim] : llvm::enumerate(given.dims)) {
      int32_t stated = tensor.shape()->Get(static_cast<uint32_t>(i));
      bool isKept =
          dim.kind == frontend::DimOverride::Kind::Keep || (dim.min == stated && dim.max == stated);
      if (!isKept) {
        return optionError(name, strCat("dimension ", i, " is ", stated,
                                        " in the file; convert the model with another"));
      }
    }
  }
  return Status::ok();
}

Status Importer::importInputs() {
  std::set<std::string> names;
  Status status = Status::ok();
  forEach(graph.inputs(), [&](int32_t index) {
    if (!status) {
      return;
    }
    const fb::Tensor &stated = tensor(index);
    std::string name = labelOf(stated, index);
    if (!names.insert(name).second) {
      status =
          Status::error(ErrorId::OnnxDuplicateName, strCat("two inputs are called '", name, "'"),
                        "convert the model again");
      return;
    }
    status = checkShapeOption(name, stated);
    RankedTensorType type = storedType(&context, stated);
    if (!type) {
      addGap(tensorGap("Input", name, stated));
      return;
    }
    auto fixed = llvm::find_if(
        options.fixed, [&](const frontend::FixedInput &given) { return given.input == name; });
    if (fixed == options.fixed.end()) {
      values[index].stored = addInput(name, tn::getDims(type), type.getElementType());
    } else if (ArrayRef<int64_t>(fixed->dims) != type.getShape() || fixed->type != typeOf(stated)) {
      status = optionError(name, "the value has another type or shape than the file states");
    } else {
      values[index].stored = constantValue(type, fixed->bytes, name);
    }
  });
  TENON_TRY(std::move(status));
  auto check = [&](const std::string &input) {
    return names.contains(input) ? Status::ok()
                                 : optionError(input, "the model has no input of this name");
  };
  for (const frontend::ShapeOverride &given : options.shapes) {
    TENON_TRY(check(given.input));
  }
  for (const frontend::FixedInput &given : options.fixed) {
    TENON_TRY(check(given.input));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    int32_t index = static_cast<int32_t>(i);
    RankedTensorType type = storedType(&context, tensor(index));
    Bytes data = dataOf(file, tensor(index));
    if (values[i].stored || !isConstant(file, tensor(index))) {
      continue;
    }
    std::string name = labelOf(tensor(index), index);
    if (type) {
      values[i].stored = constantValue(type, data, name);
    } else {
      addGap(tensorGap("Constant", name, tensor(index)));
    }
  }
  return Status::ok();
}

Status Importer::finish() {
  SmallVector<mlir::Value> results;
  SmallVector<StringAttr> names;
  std::set<std::string> taken;
  auto add = [&](const std::string &name, mlir::Value value) {
    if (value && taken.insert(name).second) {
      results.push_back(value);
      names.push_back(builder.getStringAttr(name));
    }
  };
  Status status = Status::ok();
  forEach(graph.outputs(), [&](int32_t index) {
    std::string name = labelOf(tensor(index), index);
    if (taken.contains(name)) {
      status =
          Status::error(ErrorId::OnnxDuplicateName, strCat("two outputs are called '", name, "'"),
                        "convert the model again");
    }
    add(name, values[index].stored);
  });
  TENON_TRY(std::move(status));
  std::vector<std::string> inner;
  forEach(graph.operators(), [&](const fb::Operator *op) {
    forEach(op->outputs(), [&](int32_t index) {
      std::string name = labelOf(tensor(index), index);
      inner.push_back(name);
      if (llvm::is_contained(options.extraOutputs, name) ||
          llvm::is_contained(options.extraOutputs, std::string("*"))) {
        add(name, values[index].stored);
      }
    });
  });
  for (const std::string &name : options.extraOutputs) {
    if (name != "*" && !llvm::is_contained(inner, name)) {
      return Status::error(ErrorId::BadArgument,
                           strCat("no node of the model produces '", name, "'"),
                           didYouMean(name, inner, "'tenon inspect MODEL' lists the nodes"));
    }
  }
  for (const auto &[name, variable] : variables) {
    if (variable.now && gaps.empty()) {
      Location location = NameLoc::get(builder.getStringAttr(name));
      mlir::Value next = variable.now;
      if (variable.initial) {
        next = tn::SubOp::create(builder, location, next.getType(), next, variable.initial);
      }
      add(name + ".next", next);
    }
  }
  if (results.empty() && gaps.empty()) {
    return Status::error(ErrorId::OnnxUndefinedValue, "the model has no outputs",
                         "convert the model again");
  }
  endFunction(results, names);
  return std::move(pending);
}

} // namespace tenon::tflite

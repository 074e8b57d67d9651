// A module of `tn` as data for people and programs: JSON by the schema of
// docs/explanation/graph.md, the same for a model as imported and for regions. Relies on locations
// for names, modules and source lines.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>
#include <string>
#include <utility>

namespace tenon::tn {

/// The least and the largest element of a weight, by its id and type of elements.
using RangeOf =
    llvm::function_ref<std::optional<std::pair<double, double>>(llvm::StringRef, mlir::Type)>;

/// The name of an input or output by its attributes, or its kind and number: "output0".
std::string portName(mlir::DictionaryAttr attributes, llvm::StringRef kind, unsigned index);

/// The nodes, values, parameters and counts of the module's function @main, which must be there. In
/// a dispatched module each node names its region by its place among them. Equal modules give equal
/// text.
///
/// What a frontend knows of a node, it puts into the location of its operations, a FusedLoc: a
/// NameLoc with the node's name, which begins with the modules that hold it
/// ("/encoder/layer.0/MatMul" or "encoder.layer.0/matmul"); a FileLineColLoc with the line of the
/// source; as metadata, a StringAttr with the model's own operator, or an ArrayAttr of that and the
/// path of the node ("encoder.layer.0/linear_3") where its name does not begin with its modules.
std::string graphInfo(mlir::ModuleOp module, RangeOf rangeOf = nullptr);

} // namespace tenon::tn

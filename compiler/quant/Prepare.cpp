// Each step reads what the one before it wrote.
#include "compiler/quant/Prepare.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/quant/FoldConstants.h"
#include "compiler/quant/Opset.h"

#include <algorithm>
#include <span>

namespace tenon::quant {
namespace {

constexpr const char *kRemedy = "export it with its weights beside the file";

Result<std::string> raised(Bytes file, int64_t least) {
  TENON_ASSIGN(onnx::Model model, onnx::readModel(file));
  TENON_TRY(checkNodes(model.graph.nodes));
  bool isOld =
      std::any_of(model.opsets.begin(), model.opsets.end(), [&](const onnx::OpsetImport &own) {
        return own.domain.empty() && own.version < least;
      });
  if (!isOld) {
    return std::string();
  }
  Graph graph(model);
  ModelEdit edit(file, model, graph);
  edit.keepExternal();
  TENON_TRY(raiseOpset(model, graph, edit, least).takeStatus());
  onnx::ExternalFiles none("");
  return edit.write(none, kRemedy);
}

Result<std::string> folded(Bytes file, const std::string &folder, bool keepsNames) {
  TENON_ASSIGN(onnx::Model model, onnx::readModel(file));
  Graph graph(model);
  ModelEdit edit(file, model, graph);
  edit.keepExternal();
  onnx::ExternalFiles files(folder);
  if (!foldConstants(model, graph, edit, files, keepsNames)) {
    return std::string();
  }
  return edit.write(files, kRemedy);
}

Result<std::string> foldedInside(Bytes file, const std::string &folder) {
  TENON_ASSIGN(onnx::Model model, onnx::readModel(file));
  Graph graph(model);
  ModelEdit edit(file, model, graph);
  edit.keepExternal();
  onnx::ExternalFiles files(folder);
  TENON_ASSIGN(bool changes, foldInside(model, graph, edit, files));
  return changes ? edit.write(files, kRemedy) : std::string();
}

} // namespace

Result<std::string> prepareModel(Bytes file, const std::string &folder, int64_t least,
                                 bool keepsNames) {
  std::string prepared;
  auto bytes = [&] { return prepared.empty() ? file : std::as_bytes(std::span(prepared)); };
  auto replace = [&](std::string made) { prepared = made.empty() ? prepared : std::move(made); };
  TENON_ASSIGN(prepared, raised(file, least));
  TENON_ASSIGN(std::string own, folded(bytes(), folder, keepsNames));
  replace(std::move(own));
  if (!keepsNames) {
    TENON_ASSIGN(std::string inside, foldedInside(bytes(), folder));
    replace(std::move(inside));
  }
  return prepared;
}

} // namespace tenon::quant

// The file beside an ONNX model that is written, for weights that the model has no room for.
#pragma once

#include "compiler/quant/ConstantSink.h"
#include "support/files/AtomicFile.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

class DataFile : public quant::ConstantSink {
public:
  /// Of the model at `model`, in its folder, under `name`. Made when something comes into it; none
  /// of `inputs` is replaced.
  DataFile(const std::string &model, std::string name, std::vector<std::string> inputs);

  std::string location() const override { return name; }
  /// What is zero takes no room on the disk.
  Status append(Bytes bytes) override;
  uint64_t size() const override { return file ? file->size() : 0; }
  bool isUsed() const { return size() > 0; }
  const std::string &path() const { return where; }
  /// Before the model that names it. Nothing where it is not used.
  Status commit();

private:
  std::string where, name;
  std::vector<std::string> inputs;
  std::optional<AtomicFile> file;
};

/// What a user is told of it.
std::string noteOfData(const DataFile &file);

/// The name that belongs to a model's.
std::string dataNameOf(const std::string &model);

} // namespace tenon::tool

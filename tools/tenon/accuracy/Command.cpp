// `cmd:PROGRAM`: a metric of the user's. The outputs of all samples, and the labels, go to the
// program as an npz whose path is its last argument; the last line that it prints is the metric.

#include "runtime/tensors/Npy.h"
#include "support/files/ScratchFolder.h"
#include "tools/tenon/accuracy/Metric.h"
#include "tools/tenon/accuracy/Rows.h"

#include <fmt/format.h>

#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace tenon::tool {
namespace {

Result<Tensor> copyOf(const Tensor &tensor, std::string name, std::vector<int64_t> dims) {
  TENON_ASSIGN(Tensor copy, Tensor::create(std::move(name), tensor.dtype, std::move(dims)));
  std::ranges::copy(tensor.bytes(), copy.data.bytes().begin());
  return copy;
}

/// One array with a row for each sample; where their dims differ, an array NAME.i for each. Rows
/// are freed as they are copied, so that a data set's outputs are in memory once.
Result<std::vector<Tensor>> stack(std::vector<Tensor> rows) {
  bool areSame =
      std::ranges::all_of(rows, [&](const Tensor &row) { return row.dims == rows[0].dims; });
  if (areSame) {
    std::vector<int64_t> dims = rows[0].dims;
    dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
    TENON_ASSIGN(Tensor all, Tensor::create(rows[0].name, rows[0].dtype, std::move(dims)));
    size_t bytes = rows[0].bytes().size();
    for (size_t i = 0; i < rows.size(); ++i) {
      std::ranges::copy(rows[i].bytes(),
                        all.data.bytes().begin() + static_cast<std::ptrdiff_t>(i * bytes));
      rows[i].data = AlignedBuffer();
    }
    rows.clear();
    rows.push_back(std::move(all));
    return rows;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].name += fmt::format(".{}", i);
  }
  return rows;
}

std::string shellWord(const std::string &path) {
  std::string text = "'";
  for (char letter : path) {
    text += letter == '\'' ? "'\\''" : std::string(1, letter);
  }
  return text + "'";
}

/// The number that the last line with anything on it is; none where it is no number.
std::optional<double> lastNumber(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  size_t end = text.find_last_not_of(kSpace);
  if (end == text.npos) {
    return std::nullopt;
  }
  text = text.substr(0, end + 1);
  text.remove_prefix(text.find_last_of("\r\n") + 1);
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  double value = 0;
  std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  bool isNumber =
      parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && std::isfinite(value);
  return isNumber ? std::optional(value) : std::nullopt;
}

class CommandScorer final : public Scorer {
public:
  CommandScorer(std::string command, const Tensor *labelTensor)
      : program(std::move(command)), labels(labelTensor) {}

  Status add(const Answer &answer) override;
  Result<double> value() override;
  const Scores *scores() const override { return nullptr; }

private:
  std::string program;
  const Tensor *labels;
  std::vector<std::vector<Tensor>> outputs; ///< for each output, its samples
};

Status CommandScorer::add(const Answer &answer) {
  outputs.resize(answer.outputs.size());
  bool isFinite = true;
  for (size_t i = 0; i < answer.outputs.size(); ++i) {
    const Tensor &said = answer.outputs[i];
    TENON_ASSIGN(Tensor copy, copyOf(said, said.name, said.dims));
    outputs[i].push_back(std::move(copy));
    isFinite &= !isFloating(said.dtype) || areFinite(allElements(said));
  }
  nonFinite += isFinite ? 0 : 1;
  return Status::ok();
}

Result<double> CommandScorer::value() {
  std::vector<Tensor> arrays;
  bool isLabelFree = labels != nullptr;
  for (std::vector<Tensor> &rows : outputs) {
    isLabelFree = isLabelFree && rows[0].name != "labels";
    TENON_ASSIGN(std::vector<Tensor> stacked, stack(std::move(rows)));
    std::ranges::move(stacked, std::back_inserter(arrays));
  }
  if (isLabelFree) {
    TENON_ASSIGN(Tensor copy, copyOf(*labels, "labels", labels->dims));
    arrays.push_back(std::move(copy));
  }
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-metric"));
  std::string path = folder.path() + "/outputs.npz";
  TENON_TRY(writeNpz(path, arrays));
  std::string line = program + " " + shellWord(path);
  std::fflush(nullptr);
  FILE *pipe = popen(line.c_str(), "r");
  if (!pipe) {
    return Status::error(ErrorId::OutOfMemory, "cannot start a process for the metric");
  }
  std::string text;
  char piece[4096];
  for (size_t got = 0; (got = std::fread(piece, 1, sizeof(piece), pipe)) > 0;) {
    text.append(piece, got);
  }
  int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return noMetric(WIFEXITED(status)
                        ? fmt::format("'{}' ended with exit code {}", program, WEXITSTATUS(status))
                        : fmt::format("'{}' was ended by a signal", program),
                    "it gets the path of an npz with the outputs as its last argument; try it on a "
                    "file that tenon run -o wrote");
  }
  std::optional<double> number = lastNumber(text);
  if (!number) {
    return noMetric(fmt::format("the last line that '{}' printed is not a number", program),
                    "print only the metric on the last line");
  }
  return *number;
}

} // namespace

std::unique_ptr<Scorer> makeCommand(const MetricSpec &spec, const Tensor *labels) {
  return std::make_unique<CommandScorer>(spec.program, labels);
}

} // namespace tenon::tool

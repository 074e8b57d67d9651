// Which calls go by rows, and of what: tensors of pictures have the rows that their windows say,
// and what goes element by element follows.
#include "compiler/codegen/edge/Rows.h"

#include <algorithm>
#include <utility>

namespace tenon::codegen::edge {
namespace {

/// The parameters of a call by their names.
class Shape {
public:
  explicit Shape(Call &call) : fields(infoOf(call.kernel).fields), values(call.shape) {}

  int32_t &at(std::string_view name) const {
    return values[static_cast<size_t>(std::ranges::find(fields, name) - fields.begin())];
  }
  bool has(std::string_view name) const { return std::ranges::find(fields, name) != fields.end(); }

private:
  const std::vector<std::string> &fields;
  std::vector<int32_t> &values;
};

bool hasWindows(Kernel kernel) {
  return kernel == Kernel::Conv || kernel == Kernel::Depthwise || kernel == Kernel::Average ||
         kernel == Kernel::Maximum;
}

/// Its positions do not meet.
bool isPointwise(const Shape &shape) {
  return shape.at("kernel_h") * shape.at("kernel_w") == 1 &&
         shape.at("stride_h") * shape.at("stride_w") == 1 && shape.at("pad_h") == 0 &&
         shape.at("pad_w") == 0 && shape.at("in_h") == shape.at("out_h") &&
         shape.at("in_w") == shape.at("out_w");
}

RowForm possibleForm(Call &call) {
  Shape shape(call);
  switch (call.kernel) {
  case Kernel::Conv:
    if (isPointwise(shape)) {
      return RowForm::Each;
    }
    return shape.at("batch") == 1 ? RowForm::Window : RowForm::Whole;
  case Kernel::Average: {
    bool isAll = shape.at("out_h") * shape.at("out_w") == 1 && shape.at("pad_h") == 0 &&
                 shape.at("pad_w") == 0 && shape.at("kernel_h") >= shape.at("in_h") &&
                 shape.at("kernel_w") >= shape.at("in_w");
    if (shape.at("batch") != 1) {
      return RowForm::Whole;
    }
    return isAll ? RowForm::Sum : RowForm::Window;
  }
  case Kernel::Depthwise:
  case Kernel::Maximum:
    return shape.at("batch") == 1 ? RowForm::Window : RowForm::Whole;
  case Kernel::Add:
  case Kernel::Mul:
  case Kernel::Affine:
  case Kernel::Table:
  case Kernel::Softmax:
    return RowForm::Each;
  default:
    return RowForm::Whole;
  }
}

/// A picture of one row becomes one of one column, which is the same in memory.
void turnFlat(Call &call) {
  Shape shape(call);
  bool isFlat = shape.at("in_h") == 1 && shape.at("out_h") == 1 && shape.at("kernel_h") == 1 &&
                shape.at("pad_h") == 0;
  if (!isFlat) {
    return;
  }
  for (auto [height, width] :
       {std::pair("in_h", "in_w"), std::pair("out_h", "out_w"), std::pair("kernel_h", "kernel_w"),
        std::pair("stride_h", "stride_w"), std::pair("dilation_h", "dilation_w"),
        std::pair("pad_h", "pad_w")}) {
    if (shape.has(height)) {
      std::swap(shape.at(height), shape.at(width));
    }
  }
}

/// Whether the second operand of a sum or product has an element for each of the first.
bool readsTwice(const Program &program, const Call &call) {
  return call.reads.size() > 1 &&
         program.tensors[call.reads[1]].bytes == program.tensors[call.writes].bytes;
}

/// Rows of the tensors around a call where they are known, 0 where not.
bool spreadRows(const Program &program, Call &call, std::vector<int64_t> &rows) {
  bool isChanged = false;
  auto propose = [&](int tensor, int64_t count) {
    if (rows[tensor] == 0 && count > 0) {
      rows[tensor] = count;
      isChanged = true;
    }
  };
  if (call.form == RowForm::Window) {
    Shape shape(call);
    propose(call.reads.front(), shape.at("in_h"));
    propose(call.writes, shape.at("out_h"));
  } else if (call.form == RowForm::Each) {
    propose(call.writes, rows[call.reads.front()]);
    propose(call.reads.front(), rows[call.writes]);
    if (readsTwice(program, call)) {
      propose(call.reads[1], rows[call.writes]);
    }
  } else if (call.form == RowForm::Sum) {
    propose(call.writes, 1);
  }
  return isChanged;
}

/// Makes the parameters those of one of `rows` rows; false where they do not divide.
bool takeRow(const Program &program, Call &call, int32_t rows) {
  Shape shape(call);
  if (call.kernel == Kernel::Conv) {
    int32_t positions = shape.at("batch") * shape.at("in_h") * shape.at("in_w");
    shape.at("batch") = shape.at("in_h") = shape.at("out_h") = 1;
    shape.at("in_w") = shape.at("out_w") = positions / rows;
    return positions % rows == 0;
  }
  if (call.kernel == Kernel::Softmax) {
    bool isWhole = shape.at("rows") % rows == 0;
    shape.at("rows") /= rows;
    return isWhole;
  }
  int32_t count = shape.at("count") / rows;
  bool isWhole = shape.at("count") % rows == 0;
  if (readsTwice(program, call)) {
    isWhole = isWhole && shape.at("inner") == 1;
    shape.at("period") = count;
  } else if (call.kernel != Kernel::Table) {
    isWhole = isWhole && count % (shape.at("period") * shape.at("inner")) == 0;
  }
  shape.at("count") = count;
  return isWhole;
}

/// An average of a whole picture becomes sums of its rows.
bool takeSum(Program &program, Call &call, int32_t rows) {
  Shape shape(call);
  int32_t positions = shape.at("in_h") * shape.at("in_w");
  if (positions % rows != 0) {
    return false;
  }
  int32_t channels = shape.at("channels");
  std::vector<int32_t> parameters = {rows,
                                     positions / rows,
                                     channels,
                                     shape.at("in_zero"),
                                     shape.at("out_zero"),
                                     shape.at("low"),
                                     shape.at("high")};
  call.kernel = Kernel::Mean;
  call.shape = std::move(parameters);
  constexpr int64_t kSumBytes = 4;
  program.tensors.push_back({kSumBytes * channels});
  call.sums = static_cast<int>(program.tensors.size()) - 1;
  return true;
}

bool fits(Program &program, Call &call) {
  int64_t in = call.reads.empty() ? 1 : program.tensors[call.reads.front()].rows;
  int64_t out = program.tensors[call.writes].rows;
  switch (call.form) {
  case RowForm::Whole:
    return true;
  case RowForm::Window: {
    Shape shape(call);
    return in == shape.at("in_h") && out == shape.at("out_h");
  }
  case RowForm::Each: {
    bool isSame =
        in == out && (!readsTwice(program, call) || program.tensors[call.reads[1]].rows == out);
    return isSame && takeRow(program, call, static_cast<int32_t>(out));
  }
  case RowForm::Sum:
    return out == 1 && takeSum(program, call, static_cast<int32_t>(in));
  }
  return false;
}

} // namespace

void settleRows(Program &program) {
  std::vector<Call> given = program.calls;
  for (Call &call : program.calls) {
    call.form = possibleForm(call);
    if (call.form == RowForm::Window && hasWindows(call.kernel)) {
      turnFlat(call);
    }
  }
  std::vector<int64_t> rows(program.tensors.size());
  for (bool isChanged = true; isChanged;) {
    isChanged = false;
    for (Call &call : program.calls) {
      isChanged |= spreadRows(program, call, rows);
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    bool isWhole = rows[i] > 0 && program.tensors[i].bytes % rows[i] == 0;
    program.tensors[i].rows = isWhole ? rows[i] : 1;
  }
  for (size_t i = 0; i < program.calls.size(); ++i) {
    if (!fits(program, program.calls[i])) {
      program.calls[i] = given[i];
    }
  }
}

std::vector<Storage> storagesOf(const Program &program) {
  std::vector<Storage> storages(program.tensors.size(), Storage::Rows);
  for (const Call &call : program.calls) {
    if (call.form == RowForm::Whole) {
      storages[call.writes] = Storage::Block;
    }
    for (size_t i = 0; i < call.reads.size(); ++i) {
      if (call.form == RowForm::Whole || isRepeated(program, call, i)) {
        storages[call.reads[i]] = Storage::Block;
      }
    }
  }
  std::vector<bool> isAwaited(storages.size());
  for (const Port &port : program.inputs) {
    isAwaited[port.tensor] = program.isInputByRows && storages[port.tensor] == Storage::Rows;
    storages[port.tensor] = isAwaited[port.tensor] ? Storage::Rows : Storage::Pinned;
  }
  for (size_t i = 0; i < storages.size(); ++i) {
    bool isOne = storages[i] == Storage::Rows && program.tensors[i].rows == 1 && !isAwaited[i];
    storages[i] = isOne ? Storage::Block : storages[i];
  }
  for (const Port &port : program.outputs) {
    storages[port.tensor] = Storage::Block;
  }
  return storages;
}

int64_t stepsOf(const Program &program, const Call &call) {
  switch (call.form) {
  case RowForm::Whole:
    return 1;
  case RowForm::Sum:
    return program.tensors[call.reads.front()].rows;
  default:
    return program.tensors[call.writes].rows;
  }
}

RowWindow windowOf(const Call &call) {
  RowWindow window;
  if (call.form == RowForm::Window) {
    Call copy = call;
    Shape shape(copy);
    window = {shape.at("stride_h"), shape.at("pad_h"),
              (shape.at("kernel_h") - 1) * (shape.has("dilation_h") ? shape.at("dilation_h") : 1) +
                  1};
  }
  return window;
}

bool isRepeated(const Program &program, const Call &call, size_t operand) {
  return operand == 1 && program.tensors[call.reads[1]].bytes != program.tensors[call.writes].bytes;
}

RowNeed needOf(const Program &program, const Call &call, const RowWindow &window, size_t operand,
               int64_t row) {
  int64_t rows = program.tensors[call.reads[operand]].rows;
  bool isLast = row + 1 == stepsOf(program, call);
  if (call.form == RowForm::Whole || isRepeated(program, call, operand)) {
    return {call.reads[operand], rows, isLast ? rows : 0};
  }
  if (call.form != RowForm::Window) {
    return {call.reads[operand], row + 1, row + 1};
  }
  int64_t top = row * window.stride - window.pad;
  auto inside = [&](int64_t index) { return std::clamp(index, int64_t{0}, rows); };
  return {call.reads[operand], inside(top + window.extent),
          isLast ? rows : inside(top + window.stride)};
}

} // namespace tenon::codegen::edge

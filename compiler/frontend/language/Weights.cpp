// Makes tensors values. Relies on low-bit-weights taking a dequantization of rows of one block
// each.
#include "compiler/frontend/language/Weights.h"

#include "compiler/graph/StoredBits.h"
#include "compiler/graph/TnRare.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlir;

namespace tenon::language {
namespace {

using Part = Weights::Part;

/// The level of a zero, a number of 8 bits; the rest is taken off scaled.
uint8_t levelOf(float zero) {
  return static_cast<uint8_t>(std::clamp(std::nearbyint(zero), 0.0f, 255.0f));
}

/// Takes apart the blocks that a range of the array lies in.
class Taker {
public:
  Taker(const gguf::Tensor &tensor, Part part)
      : bytes(tensor.bytes), type(tensor.type), part(part) {}

  void operator()(uint64_t begin, uint64_t size, char *out) const {
    uint64_t ofBlock = bytesOfBlock(), end = begin + size;
    std::vector<uint8_t> numbers(type->elements);
    std::vector<float> scales(type->elements / type->group), zeros(scales.size());
    std::vector<char> made(ofBlock);
    for (uint64_t block = begin / ofBlock; block * ofBlock < end; ++block) {
      type->take(bytes.data() + block * type->bytes, numbers.data(), scales.data(), zeros.data());
      write(numbers, scales, zeros, made.data());
      uint64_t from = std::max(begin, block * ofBlock);
      uint64_t to = std::min(end, (block + 1) * ofBlock);
      std::memcpy(out + (from - begin), made.data() + (from - block * ofBlock), to - from);
    }
  }
  uint64_t bytesOfBlock() const {
    uint64_t groups = type->elements / type->group;
    return part == Part::Numbers   ? type->elements
           : part == Part::Nibbles ? type->elements / 2
           : part == Part::Zeros   ? groups
                                   : groups * sizeof(float);
  }

private:
  void write(const std::vector<uint8_t> &numbers, const std::vector<float> &scales,
             const std::vector<float> &zeros, char *out) const {
    if (part == Part::Numbers) {
      std::memcpy(out, numbers.data(), numbers.size());
      return;
    }
    for (size_t i = 0; part == Part::Nibbles && i < numbers.size(); i += 2) {
      out[i / 2] = static_cast<char>(numbers[i] | numbers[i + 1] << 4);
    }
    for (size_t i = 0; part != Part::Nibbles && i < scales.size(); ++i) {
      float rest = (zeros[i] - levelOf(zeros[i])) * scales[i];
      if (part == Part::Zeros) {
        out[i] = static_cast<char>(levelOf(zeros[i]));
      } else {
        std::memcpy(out + i * sizeof(float), part == Part::Scales ? &scales[i] : &rest,
                    sizeof(float));
      }
    }
  }

  Bytes bytes;
  const weights::BlockType *type;
  Part part;
};

/// Some rows of a matrix that does not lie row by row.
class Gatherer {
public:
  explicit Gatherer(const gguf::Tensor &theTensor)
      : tensor(theTensor), element(tensor.type->bytes), inner(tensor.elements() / tensor.dims[0]) {}

  void operator()(uint64_t begin, uint64_t size, char *out) const {
    int64_t rowBytes = inner * element;
    int64_t first = static_cast<int64_t>(begin) / rowBytes;
    int64_t last = static_cast<int64_t>(begin + size + rowBytes - 1) / rowBytes;
    // Neighbours of a column lie together, so that all rows take theirs before the next.
    for (int64_t i = 0; i < inner; ++i) {
      for (int64_t row = first; row < last; ++row) {
        int64_t at = row * rowBytes + i * element - static_cast<int64_t>(begin);
        if (at >= 0 && at < static_cast<int64_t>(size)) {
          std::memcpy(out + at, tensor.bytes.data() + placeOf(tensor.firstRow + row, i) * element,
                      element);
        }
      }
    }
  }

private:
  int64_t placeOf(int64_t row, int64_t i) const {
    if (tensor.lying == weights::Lying::Columns) {
      return i * tensor.wholeRows + row;
    }
    int64_t ofPart = tensor.wholeRows / 3, width = tensor.headWidth;
    int64_t part = row / ofPart, within = row % ofPart;
    return ((within / width * 3 + part) * width + within % width) * inner + i;
  }

  gguf::Tensor tensor;
  int64_t element, inner;
};

std::string dimsText(ArrayRef<int64_t> dims) {
  std::string text;
  for (int64_t dim : dims) {
    text += strCat(text.empty() ? "" : ", ", dim);
  }
  return strCat('[', text, ']');
}

} // namespace

const gguf::Tensor *Weights::find(frontend::Emitter &c, std::string_view name,
                                  ArrayRef<int64_t> dims, bool isOptional) {
  const gguf::Tensor *tensor = model.tensor(name);
  if (!tensor) {
    if (!isOptional) {
      c.error(ErrorId::LanguageModelBad,
              Twine("it has no tensor '") + model.file.nameOf(name) + "'");
    }
    return nullptr;
  }
  read.insert(std::string(name));
  if (ArrayRef<int64_t>(tensor->dims) != dims) {
    c.error(ErrorId::LanguageModelBad, Twine("the tensor '") + tensor->name + "' is " +
                                           dimsText(tensor->dims) + ", and its keys make it " +
                                           dimsText(dims));
    return nullptr;
  }
  return tensor;
}

Value Weights::get(frontend::Emitter &c, std::string_view name, ArrayRef<int64_t> dims,
                   bool isOptional) {
  const gguf::Tensor *tensor = find(c, name, dims, isOptional);
  return tensor ? valueOf(c, *tensor) : Value();
}

Value Weights::cut(frontend::Emitter &c, std::string_view name, Rows rows, ArrayRef<int64_t> inner,
                   bool isOptional) {
  SmallVector<int64_t> dims = {rows.whole};
  dims.append(inner.begin(), inner.end());
  const gguf::Tensor *tensor = find(c, name, dims, isOptional);
  if (!tensor || rows.count == rows.whole) {
    return tensor ? valueOf(c, *tensor) : Value();
  }
  gguf::Tensor some = *tensor;
  uint64_t bytesOfRow = tensor->bytes.size() / rows.whole;
  some.name += strCat('[', rows.first, ':', rows.first + rows.count, ']');
  some.dims[0] = rows.count;
  if (tensor->lying != weights::Lying::Rows) {
    some.firstRow = rows.first;
    return valueOf(c, some);
  }
  some.bytes = tensor->bytes.subspan(rows.first * bytesOfRow, rows.count * bytesOfRow);
  return valueOf(c, some);
}

Value Weights::valueOf(frontend::Emitter &c, const gguf::Tensor &tensor) {
  return tensor.type->isFloat() ? floats(c, tensor) : blocks(c, tensor);
}

Value Weights::rows(frontend::Emitter &c, std::string_view name, ArrayRef<int64_t> dims,
                    Value indices) {
  const gguf::Tensor *tensor = find(c, name, dims, /*isOptional=*/false);
  if (!tensor) {
    return Value();
  }
  if (tensor->type->isFloat()) {
    return c.make<tn::GatherOp>(floats(c, *tensor), indices, int64_t{0});
  }
  Type real = c.builder().getF32Type();
  AffineExpr outer = tn::getDims(indices.getType())[0], one = c.constantSize(1);
  AffineExpr groups = c.constantSize(dims[1] / tensor->type->group);
  auto taken = [&](Value table, AffineExpr inner) {
    table = c.reshape(table, {c.constantSize(dims[0]), groups, inner});
    return c.cast(c.make<tn::GatherOp>(table, indices, int64_t{0}), real);
  };
  Value y = taken(smallNumbers(c, *tensor), c.constantSize(tensor->type->group));
  bool hasZeros = tensor->type->zero < 0;
  Value zero = hasZeros ? taken(part(c, *tensor, Part::Zeros), one)
                        : c.scalar(static_cast<double>(tensor->type->zero), real);
  y = c.mul(c.sub(y, zero), taken(part(c, *tensor, Part::Scales), one));
  y = hasZeros ? c.sub(y, taken(part(c, *tensor, Part::Rests), one)) : y;
  return c.reshape(y, {outer, c.constantSize(dims[1])});
}

Value Weights::floats(frontend::Emitter &c, const gguf::Tensor &tensor) {
  OpBuilder &builder = c.builder();
  Type element = tensor.type->name == "F16"    ? Type(builder.getF16Type())
                 : tensor.type->name == "BF16" ? Type(builder.getBF16Type())
                                               : Type(builder.getF32Type());
  ArrayRef<char> bytes(reinterpret_cast<const char *>(tensor.bytes.data()), tensor.bytes.size());
  Location location = NameLoc::get(builder.getStringAttr(tensor.name));
  if (tensor.lying != weights::Lying::Rows) {
    uint64_t size = tensor.elements() * tensor.type->bytes;
    Value weight =
        tn::WeightOp::create(builder, location, RankedTensorType::get(tensor.dims, element),
                             store.addGenerated(tensor.name, size, Gatherer(tensor), "model"));
    return c.cast(weight, builder.getF32Type());
  }
  // Numbers of a file need not lie where a machine reads them as such.
  bool isAligned = reinterpret_cast<uintptr_t>(bytes.data()) % sizeof(float) == 0;
  std::string id =
      isAligned
          ? store.addView(tensor.name, bytes, "model")
          : store.addOwned(tensor.name, std::vector<char>(bytes.begin(), bytes.end()), "model");
  Value weight =
      tn::WeightOp::create(builder, location, RankedTensorType::get(tensor.dims, element), id);
  return c.cast(weight, builder.getF32Type());
}

Value Weights::part(frontend::Emitter &c, const gguf::Tensor &tensor, Part kind) {
  const weights::BlockType &type = *tensor.type;
  int64_t elements = tensor.elements(), groups = elements / type.group;
  Taker take(tensor, kind);
  uint64_t bytes = elements / type.elements * take.bytesOfBlock();
  Type byte = c.builder().getIntegerType(8, /*isSigned=*/false), real = c.builder().getF32Type();
  auto [suffix, dims, element] =
      kind == Part::Nibbles ? std::tuple(".nibbles", SmallVector<int64_t>{elements / 2}, byte)
      : kind == Part::Numbers
          ? std::tuple(".numbers", SmallVector<int64_t>{groups, type.group}, byte)
      : kind == Part::Scales ? std::tuple(".scales", SmallVector<int64_t>{groups}, real)
      : kind == Part::Zeros  ? std::tuple(".zeros", SmallVector<int64_t>{groups}, byte)
                             : std::tuple(".rests", SmallVector<int64_t>{groups, 1}, real);
  std::string name = strCat(tensor.name, suffix);
  Location location = NameLoc::get(c.builder().getStringAttr(name));
  tn::WeightOp weight =
      tn::WeightOp::create(c.builder(), location, RankedTensorType::get(dims, element),
                           store.addGenerated(name, bytes, take, "model"));
  if (kind == Part::Numbers && type.bits < 8) {
    weight->setDiscardableAttr(tn::kStoredBits, c.builder().getI64IntegerAttr(type.bits));
  }
  return weight;
}

Value Weights::smallNumbers(frontend::Emitter &c, const gguf::Tensor &tensor) {
  if (tensor.type->bits == 8) {
    return part(c, tensor, Part::Numbers);
  }
  OpBuilder &builder = c.builder();
  RankedTensorType nibbles =
      RankedTensorType::get({tensor.elements() / tensor.type->group, tensor.type->group},
                            builder.getIntegerType(4, /*isSigned=*/false));
  return c.cast(c.makeTyped<tn::UnpackBitsOp>(nibbles, part(c, tensor, Part::Nibbles)),
                builder.getIntegerType(8, /*isSigned=*/false));
}

Value Weights::blocks(frontend::Emitter &c, const gguf::Tensor &tensor) {
  const weights::BlockType &type = *tensor.type;
  OpBuilder &builder = c.builder();
  int64_t groups = tensor.elements() / type.group;
  Value y = c.makeTyped<tn::DequantizeOp>(
      RankedTensorType::get({groups, type.group}, builder.getF32Type()),
      part(c, tensor, Part::Numbers), part(c, tensor, Part::Scales), part(c, tensor, Part::Zeros),
      int64_t{0});
  if (type.zero < 0) {
    y = c.sub(y, part(c, tensor, Part::Rests));
  }
  tn::Dims dims;
  for (int64_t dim : tensor.dims) {
    dims.push_back(c.constantSize(dim));
  }
  return c.reshape(y, dims);
}

std::vector<std::string> Weights::unread() const {
  std::vector<std::string> names;
  for (const auto &[name, tensor] : model.file.tensors) {
    if (!read.count(name)) {
      names.push_back(tensor.name);
    }
  }
  return names;
}

} // namespace tenon::language

// Makes tensors values. Relies on low-bit-weights taking a dequantization of rows of one block
// each.
#include "compiler/frontend/language/Weights.h"

#include "compiler/graph/TnRare.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlir;

namespace tenon::language {
namespace {

/// What a range of bytes of one of the arrays behind a tensor is made of.
enum class Part : uint8_t { Numbers, Scales, Zeros, Rests };

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
    return part == Part::Numbers ? type->elements * type->bits / 8
           : part == Part::Zeros ? groups
                                 : groups * sizeof(float);
  }

private:
  void write(const std::vector<uint8_t> &numbers, const std::vector<float> &scales,
             const std::vector<float> &zeros, char *out) const {
    if (part == Part::Numbers && type->bits == 8) {
      std::memcpy(out, numbers.data(), numbers.size());
      return;
    }
    for (size_t i = 0; part == Part::Numbers && i < numbers.size(); i += 2) {
      out[i / 2] = static_cast<char>(numbers[i] | numbers[i + 1] << 4);
    }
    for (size_t i = 0; part != Part::Numbers && i < scales.size(); ++i) {
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

std::string dimsText(ArrayRef<int64_t> dims) {
  std::string text;
  for (int64_t dim : dims) {
    text += strCat(text.empty() ? "" : ", ", dim);
  }
  return strCat('[', text, ']');
}

} // namespace

Value Weights::get(frontend::Emitter &c, std::string_view name, ArrayRef<int64_t> dims,
                   bool isOptional) {
  const gguf::Tensor *tensor = model.tensor(name);
  if (!tensor) {
    if (!isOptional) {
      c.error(ErrorId::LanguageModelBad, Twine("it has no tensor '") + StringRef(name) + "'");
    }
    return Value();
  }
  read.insert(tensor->name);
  if (ArrayRef<int64_t>(tensor->dims) != dims) {
    c.error(ErrorId::LanguageModelBad, Twine("the tensor '") + StringRef(name) + "' is " +
                                           dimsText(tensor->dims) + ", and its keys make it " +
                                           dimsText(dims));
    return Value();
  }
  return tensor->type->isFloat() ? floats(c, *tensor) : blocks(c, *tensor);
}

Value Weights::floats(frontend::Emitter &c, const gguf::Tensor &tensor) {
  OpBuilder &builder = c.builder();
  Type element = tensor.type->name == "F16"    ? Type(builder.getF16Type())
                 : tensor.type->name == "BF16" ? Type(builder.getBF16Type())
                                               : Type(builder.getF32Type());
  ArrayRef<char> bytes(reinterpret_cast<const char *>(tensor.bytes.data()), tensor.bytes.size());
  Location location = NameLoc::get(builder.getStringAttr(tensor.name));
  Value weight =
      tn::WeightOp::create(builder, location, RankedTensorType::get(tensor.dims, element),
                           store.addView(tensor.name, bytes, "model"));
  return c.cast(weight, builder.getF32Type());
}

Value Weights::generated(frontend::Emitter &c, const std::string &name, RankedTensorType type,
                         uint64_t bytes, tn::WeightGenerator generate) {
  Location location = NameLoc::get(c.builder().getStringAttr(name));
  return tn::WeightOp::create(c.builder(), location, type,
                              store.addGenerated(name, bytes, std::move(generate), "model"));
}

Value Weights::blocks(frontend::Emitter &c, const gguf::Tensor &tensor) {
  const weights::BlockType &type = *tensor.type;
  OpBuilder &builder = c.builder();
  Type byte = builder.getIntegerType(8, /*isSigned=*/false), real = builder.getF32Type();
  int64_t elements = tensor.elements(), groups = elements / type.group;
  int64_t blocks = elements / type.elements;
  auto part = [&](Part kind, std::string_view suffix, ArrayRef<int64_t> dims, Type element) {
    Taker take(tensor, kind);
    uint64_t bytes = blocks * take.bytesOfBlock();
    return generated(c, strCat(tensor.name, suffix), RankedTensorType::get(dims, element), bytes,
                     take);
  };
  Value numbers;
  if (type.bits == 4) {
    numbers = part(Part::Numbers, ".numbers", {elements / 2}, byte);
    Type nibble = builder.getIntegerType(4, /*isSigned=*/false);
    numbers =
        c.makeTyped<tn::UnpackBitsOp>(RankedTensorType::get({groups, type.group}, nibble), numbers);
    numbers = c.cast(numbers, byte);
  } else {
    numbers = part(Part::Numbers, ".numbers", {groups, type.group}, byte);
  }
  Value scales = part(Part::Scales, ".scales", {groups}, real);
  Value zeros = type.zero >= 0 ? c.scalar(static_cast<double>(type.zero), byte)
                               : part(Part::Zeros, ".zeros", {groups}, byte);
  zeros = type.zero >= 0 ? c.broadcast(zeros, {c.constantSize(groups)}) : zeros;
  Value y = c.makeTyped<tn::DequantizeOp>(RankedTensorType::get({groups, type.group}, real),
                                          numbers, scales, zeros, int64_t{0});
  if (type.zero < 0) {
    y = c.sub(y, part(Part::Rests, ".rests", {groups, 1}, real));
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
      names.push_back(name);
    }
  }
  return names;
}

} // namespace tenon::language

// Reads the fields one after the other. Relies on the descriptors having no padding, which is
// asserted below.

#include "runtime/library/Call.h"

#include "support/text/Text.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace tenon::library {
namespace {

static_assert(sizeof(engine::MatmulCall) == 28 && sizeof(engine::ConvCall) == 44 &&
              sizeof(engine::AttentionCall) == 8 && sizeof(engine::ScaledMatmulCall) == 12);

Status malformed(std::string_view what) {
  return Status::error(ErrorId::EngineBadInstruction, strCat("library call: ", what),
                       "compile the model again");
}

/// After the first byte that does not fit, `isGood` stays false.
class Fields {
public:
  explicit Fields(Bytes bytes) : rest(bytes) {}

  int64_t number(size_t bytes) {
    int32_t wide = 0;
    uint8_t narrow = 0;
    if (rest.size() < bytes) {
      isGood = false;
      return 0;
    }
    std::memcpy(bytes == 1 ? static_cast<void *>(&narrow) : &wide, rest.data(), bytes);
    rest = rest.subspan(bytes);
    return bytes == 1 ? narrow : wide;
  }
  int64_t byteUpTo(int64_t most) {
    int64_t value = number(1);
    isGood &= value <= most;
    return isGood ? value : 0;
  }
  void readProposal(uint8_t &proposal) {
    proposal = static_cast<uint8_t>(byteUpTo(engine::kMaxProposals - 1));
  }
  void read(bool &flag) { flag = byteUpTo(1) != 0; }
  void read(engine::LibraryActivation &activation) {
    activation = static_cast<engine::LibraryActivation>(
        byteUpTo(static_cast<int64_t>(engine::LibraryActivation::GeluTanh)));
  }
  void readOp(engine::LibraryOp wanted) { isGood &= number(1) == static_cast<int64_t>(wanted); }
  void read(DType &type) {
    int64_t value = number(1);
    isGood &= isDType(static_cast<uint8_t>(value));
    type = isGood ? static_cast<DType>(value) : DType::F32;
  }
  void read(float &value) {
    value = std::bit_cast<float>(static_cast<int32_t>(number(sizeof(value))));
    isGood &= std::isfinite(value);
  }
  template <size_t count> void read(int32_t (&values)[count], int32_t least) {
    for (int32_t &value : values) {
      value = static_cast<int32_t>(number(sizeof(int32_t)));
      isGood &= value >= least;
    }
  }

  bool isDone() const { return isGood && rest.empty(); }

private:
  Bytes rest;
  bool isGood = true;
};

} // namespace

Result<engine::MatmulCall> decodeMatmul(Bytes call) {
  Fields fields(call);
  engine::MatmulCall result;
  fields.readOp(engine::LibraryOp::Matmul);
  fields.read(result.type);
  fields.read(result.transposeA);
  fields.read(result.transposeB);
  fields.read(result.hasBias);
  fields.read(result.hasResidual);
  fields.read(result.activation);
  fields.read(result.allowTf32);
  int32_t hint[5];
  fields.read(hint, 0);
  result.hint = {hint[0], hint[1], hint[2], hint[3], hint[4]};
  return fields.isDone() ? Result<engine::MatmulCall>(result)
                         : malformed("the descriptor does not describe a matmul");
}

Result<engine::ScaledMatmulCall> decodeScaledMatmul(Bytes call) {
  Fields fields(call);
  engine::ScaledMatmulCall result;
  fields.readOp(engine::LibraryOp::ScaledMatmul);
  fields.read(result.type);
  fields.read(result.hasBias);
  fields.read(result.hasResidual);
  fields.read(result.activation);
  fields.readProposal(result.proposal);
  for (size_t i = 0; i < sizeof(result.reserved); ++i) {
    fields.byteUpTo(0);
  }
  fields.read(result.factor);
  return fields.isDone() ? Result<engine::ScaledMatmulCall>(result)
                         : malformed("the descriptor does not describe a matmul of 8-bit floats");
}

Result<engine::ConvCall> decodeConv(Bytes call) {
  Fields fields(call);
  engine::ConvCall result;
  fields.readOp(engine::LibraryOp::Conv);
  fields.read(result.type);
  fields.read(result.hasBias);
  fields.read(result.hasResidual);
  fields.read(result.activation);
  fields.read(result.allowTf32);
  fields.readProposal(result.proposal);
  fields.byteUpTo(0);
  int32_t groups[1];
  fields.read(groups, 1);
  result.groups = groups[0];
  fields.read(result.strides, 1);
  fields.read(result.dilations, 1);
  fields.read(result.padBefore, 0);
  fields.read(result.padAfter, 0);
  return fields.isDone() ? Result<engine::ConvCall>(result)
                         : malformed("the descriptor does not describe a convolution");
}

Result<engine::AttentionCall> decodeAttention(Bytes call) {
  Fields fields(call);
  engine::AttentionCall result;
  fields.readOp(engine::LibraryOp::Attention);
  fields.read(result.type);
  fields.read(result.isCausal);
  fields.read(result.hasMask);
  fields.read(result.scale);
  return fields.isDone() ? Result<engine::AttentionCall>(result)
                         : malformed("the descriptor does not describe attention");
}

Status checkSizes(std::span<const int64_t> sizes, size_t count) {
  if (sizes.size() != count) {
    return malformed(strCat("has ", sizes.size(), " sizes instead of ", count));
  }
  for (int64_t size : sizes) {
    if (size < 0) {
      return malformed(strCat("has a size of ", size));
    }
  }
  return Status::ok();
}

} // namespace tenon::library

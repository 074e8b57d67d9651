// A handler of nlohmann-json's events: the tree is built here, because its own builder takes any
// depth and the last of equal keys.

#include "server/protocol/Json.h"

#include "server/protocol/DataType.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tenon::server {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 32;
/// Values outside of lists: names, shapes and parameters of requests are some dozens.
constexpr size_t kMaxValues = 100'000;

class Builder {
public:
  Builder(Json &root, std::vector<NumberList> *lists) : root(root), lists(lists) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) {
    return isInList() ? pushNumber(NumberList::Kind::Bool, value) : put(value);
  }
  bool number_integer(int64_t value) {
    return isInList() ? pushNumber(NumberList::Kind::Signed, std::bit_cast<uint64_t>(value))
                      : put(value);
  }
  bool number_unsigned(uint64_t value) {
    return isInList() ? pushNumber(NumberList::Kind::Unsigned, value) : put(value);
  }
  bool number_float(double value, const std::string &text) {
    // Integers beyond 64 bits come as floats too.
    return isInList() ? pushNumber(NumberList::Kind::Float, std::bit_cast<uint64_t>(value))
                      : put(value);
  }
  bool string(std::string &value) { return put(std::move(value)); }
  bool binary(Json::binary_t &) { return refuse("binary values"); }

  bool start_object(size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(size_t) {
    if (isInList()) {
      return ++listDepth <= kMaxDepth || refuse("arrays nested too deeply");
    }
    if (isListPlace()) {
      place(lists->size());
      lists->emplace_back();
      listDepth = 1;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() {
    if (isInList()) {
      --listDepth;
      return true;
    }
    return close();
  }
  bool key(std::string &name) {
    if (open_.back()->contains(name)) {
      return refuse(fmt::format("key '{}' occurs twice", name.substr(0, 64)));
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string &, const Json::exception &error) {
    // "[name] where: syntax error while parsing value - what; last read: ..."
    std::string_view text = error.what();
    text.remove_prefix(text.find("] ") == std::string_view::npos ? 0 : text.find("] ") + 2);
    text.remove_prefix(text.find(" - ") == std::string_view::npos ? 0 : text.find(" - ") + 3);
    return refuse(fmt::format("byte {}: {}", position,
                              text.substr(0, text.find("; last read")).substr(0, 200)));
  }

  std::string problem;

private:
  bool isInList() const { return listDepth != 0; }
  bool refuse(std::string why) {
    problem = std::move(why);
    return false;
  }
  bool pushNumber(NumberList::Kind kind, uint64_t bits) {
    lists->back().push(kind, bits);
    return true;
  }
  /// Where an array becomes a list, so that no number of the text can stand for one.
  bool isListPlace() const {
    return lists && !open_.empty() && open_.back()->is_object() && key_ == "data";
  }
  bool put(Json value) {
    if (isListPlace() && !isInList()) {
      return refuse("'data' is not an array");
    }
    if (isInList()) {
      return refuse("'data' holds something that is no number");
    }
    if (++valueCount > kMaxValues) {
      return refuse("too many values");
    }
    place(std::move(value));
    return true;
  }
  Json *place(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    Json &parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool open(Json value) {
    if (isInList() || isListPlace()) {
      return refuse("'data' holds something that is no number");
    }
    if (open_.size() == kMaxDepth) {
      return refuse("values nested too deeply");
    }
    if (++valueCount > kMaxValues) {
      return refuse("too many values");
    }
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json &root;
  std::vector<NumberList> *lists;
  /// Objects and arrays that are not closed. Pointers stay valid: nothing is added to a parent
  /// while its child is open.
  std::vector<Json *> open_;
  std::string key_;
  size_t listDepth = 0;
  size_t valueCount = 0;
};

Status outOfRange(std::string_view name, size_t index, DType dtype) {
  return Status::error(ErrorId::BadRequestTensor,
                       fmt::format("element {} of input '{}' is not a value of {}", index, name,
                                   protocolName(dtype)));
}

/// False where T does not have the value.
template <typename T> bool convert(NumberList::Kind kind, uint64_t bits, T &value) {
  using Kind = NumberList::Kind;
  if constexpr (std::is_same_v<T, bool>) {
    value = bits != 0;
    return kind == Kind::Bool || (kind != Kind::Float && bits <= 1);
  } else if constexpr (std::is_floating_point_v<T>) {
    double wide = kind == Kind::Float    ? std::bit_cast<double>(bits)
                  : kind == Kind::Signed ? static_cast<double>(std::bit_cast<int64_t>(bits))
                                         : static_cast<double>(bits);
    value = static_cast<T>(wide);
    return kind != Kind::Bool && std::isfinite(value);
  } else {
    if (kind == Kind::Bool || kind == Kind::Float) {
      return false;
    }
    bool isNegative = kind == Kind::Signed && std::bit_cast<int64_t>(bits) < 0;
    value = static_cast<T>(bits);
    return isNegative
               ? std::is_signed_v<T> && std::bit_cast<int64_t>(bits) >=
                                            static_cast<int64_t>(std::numeric_limits<T>::min())
               : bits <= static_cast<uint64_t>(std::numeric_limits<T>::max());
  }
}

template <typename T>
Status storeAs(std::span<const NumberList::Kind> kinds, std::span<const uint64_t> values,
               DType dtype, MutableBytes out, std::string_view name) {
  for (size_t i = 0; i < kinds.size(); ++i) {
    T value;
    if (!convert(kinds[i], values[i], value)) {
      return outOfRange(name, i, dtype);
    }
    std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
  }
  return Status::ok();
}

} // namespace

Status NumberList::store(DType dtype, MutableBytes out, std::string_view name) const {
  switch (dtype) {
  case DType::Bool:
    return storeAs<bool>(kinds, values, dtype, out, name);
  case DType::U8:
    return storeAs<uint8_t>(kinds, values, dtype, out, name);
  case DType::U16:
    return storeAs<uint16_t>(kinds, values, dtype, out, name);
  case DType::U32:
    return storeAs<uint32_t>(kinds, values, dtype, out, name);
  case DType::U64:
    return storeAs<uint64_t>(kinds, values, dtype, out, name);
  case DType::I8:
    return storeAs<int8_t>(kinds, values, dtype, out, name);
  case DType::I16:
    return storeAs<int16_t>(kinds, values, dtype, out, name);
  case DType::I32:
    return storeAs<int32_t>(kinds, values, dtype, out, name);
  case DType::I64:
    return storeAs<int64_t>(kinds, values, dtype, out, name);
  case DType::F32:
    return storeAs<float>(kinds, values, dtype, out, name);
  case DType::F64:
    return storeAs<double>(kinds, values, dtype, out, name);
  default:
    return Status::error(ErrorId::BadRequestTensor,
                         fmt::format("input '{}' has elements of {}, which JSON has no form for",
                                     name, protocolName(dtype)),
                         "send the input as binary data");
  }
}

Status parseJson(std::string_view text, nlohmann::json &value, std::vector<NumberList> *lists) {
  Builder builder(value, lists);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return Status::error(ErrorId::BadRequest,
                         fmt::format("the JSON of the request is not valid: {}", builder.problem));
  }
  return Status::ok();
}

} // namespace tenon::server

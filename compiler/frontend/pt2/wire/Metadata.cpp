// Reads descriptions of tensors and the tree of the outputs.
#include "compiler/frontend/pt2/wire/Metadata.h"

#include "support/text/Text.h"

#include <array>

namespace tenon::pt2 {
namespace {

struct ScalarType {
  int64_t number;
  std::string_view name;
  std::optional<DType> type;
};

/// torch/_export/serde/schema.py, ScalarType.
constexpr std::array<ScalarType, 18> kScalarTypes = {{
    {1, "uint8", DType::U8},
    {2, "int8", DType::I8},
    {3, "int16", DType::I16},
    {4, "int32", DType::I32},
    {5, "int64", DType::I64},
    {6, "float16", DType::F16},
    {7, "float32", DType::F32},
    {8, "float64", DType::F64},
    {9, "complex32", std::nullopt},
    {10, "complex64", std::nullopt},
    {11, "complex128", std::nullopt},
    {12, "bool", DType::Bool},
    {13, "bfloat16", DType::BF16},
    {28, "uint16", DType::U16},
    {29, "float8_e4m3fn", DType::F8E4M3FN},
    {30, "float8_e5m2", DType::F8E5M2},
    {31, "float8_e4m3fnuz", DType::F8E4M3FNUZ},
    {32, "float8_e5m2fnuz", DType::F8E5M2FNUZ},
}};

const ScalarType *find(int64_t number) {
  for (const ScalarType &type : kScalarTypes) {
    if (type.number == number) {
      return &type;
    }
  }
  return nullptr;
}

constexpr int64_t kStrided = 7;
constexpr unsigned kMaxTreeDepth = 64;

/// The keys of a node of the tree, if its context lists as many as it has children.
std::vector<std::string> keysOf(const Json &node, size_t children) {
  std::vector<std::string> keys;
  Json::const_iterator context = node.find("context");
  if (context == node.end() || !context->is_string()) {
    return keys;
  }
  Json list = parseJson(context->get_ref<const std::string &>());
  if (list.is_array() && list.size() == children) {
    for (const Json &key : list) {
      keys.push_back(key.is_string() ? key.get<std::string>() : dumpJson(key));
    }
  }
  return keys;
}

void collectNames(const Json &node, const std::string &path, unsigned depth,
                  std::vector<std::string> &names) {
  Json::const_iterator children = node.is_object() ? node.find("children_spec") : node.end();
  bool isLeaf = children == node.end() || !children->is_array() || !node.contains("type") ||
                node["type"].is_null() || depth == kMaxTreeDepth;
  if (isLeaf) {
    names.push_back(path.empty() ? "output" : path);
    return;
  }
  std::vector<std::string> keys = keysOf(node, children->size());
  for (size_t i = 0; i < children->size(); ++i) {
    std::string key = keys.empty() ? std::to_string(i) : keys[i];
    std::string own = !path.empty()  ? strCat(path, '.', key)
                      : keys.empty() ? (children->size() == 1 ? "" : strCat("output", key))
                                     : key;
    collectNames((*children)[i], own, depth + 1, names);
  }
}

} // namespace

std::optional<DType> dtypeOf(int64_t scalarType) {
  const ScalarType *type = find(scalarType);
  return type ? type->type : std::nullopt;
}

std::optional<int64_t> partsOf(int64_t scalarType) {
  switch (scalarType) {
  case 9:
    return 6;
  case 10:
    return 7;
  case 11:
    return 8;
  default:
    return std::nullopt;
  }
}

std::string_view nameOfScalarType(int64_t scalarType) {
  const ScalarType *type = find(scalarType);
  return type ? type->name : "unknown";
}

Size sizeOf(JsonReader &json, const Json &value) {
  auto [tag, content] = json.tagged(value, "a size");
  Size size;
  if (tag == "as_int") {
    size.constant = json.integerOf(*content, "a size");
  } else if (tag == "as_expr") {
    size.expression = json.text(*content, "expr_str");
    const Json *hint = json.optionalMember(*content, "hint");
    const Json *traced = hint && hint->is_object() ? json.optionalMember(*hint, "as_int") : nullptr;
    if (traced && traced->is_number_integer()) {
      size.traced = traced->get<int64_t>();
    }
  } else {
    json.fail("a size", "is of an unknown kind");
  }
  return size;
}

TensorMeta tensorMeta(JsonReader &json, const Json &value) {
  TensorMeta meta;
  meta.scalarType = json.integer(value, "dtype");
  for (const Json &size : json.array(value, "sizes")) {
    meta.sizes.push_back(sizeOf(json, size));
  }
  for (const Json &stride : json.array(value, "strides")) {
    meta.strides.push_back(sizeOf(json, stride));
  }
  if (const Json *offset = json.optionalMember(value, "storage_offset")) {
    meta.offset = sizeOf(json, *offset);
  }
  meta.isStrided = json.integer(value, "layout") == kStrided;
  return meta;
}

std::string innermostModule(std::string_view stack) {
  size_t last = stack.rfind(';');
  std::string_view entry = last == stack.npos ? stack : stack.substr(last + 1);
  size_t first = entry.find(',');
  size_t second = first == entry.npos ? entry.npos : entry.find(',', first + 1);
  return second == entry.npos ? std::string()
                              : std::string(entry.substr(first + 1, second - first - 1));
}

std::vector<std::string> outputNames(const Json &moduleCalls) {
  std::vector<std::string> names;
  if (!moduleCalls.is_array() || moduleCalls.empty() || !moduleCalls[0].is_object()) {
    return names;
  }
  Json::const_iterator signature = moduleCalls[0].find("signature");
  if (signature == moduleCalls[0].end() || !signature->is_object()) {
    return names;
  }
  Json::const_iterator spec = signature->find("out_spec");
  if (spec == signature->end() || !spec->is_string()) {
    return names;
  }
  Json tree = parseJson(spec->get_ref<const std::string &>());
  if (tree.is_array() && tree.size() == 2) {
    collectNames(tree[1], "", 0, names);
  }
  return names;
}

} // namespace tenon::pt2

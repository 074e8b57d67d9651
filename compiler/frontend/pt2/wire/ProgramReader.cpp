// The JSON of a program as structs. Unknown fields are passed over, as the schema's rule for minor
// versions says; unknown kinds of arguments are kept by name, for the report of what Tenon lacks.
#include "compiler/frontend/pt2/wire/ArchiveReader.h"
#include "compiler/frontend/pt2/wire/Json.h"
#include "compiler/frontend/pt2/wire/Metadata.h"
#include "support/text/Text.h"

#include <array>
#include <limits>

namespace tenon::pt2 {
namespace {

using Kind = Argument::Kind;

/// Graphs are nested in graphs at most this deep.
constexpr unsigned kMaxNesting = 32;
constexpr size_t kMaxNodes = size_t{1} << 20;

/// What a tag of the schema's union of arguments holds.
enum class Form : uint8_t {
  None,
  Name,   ///< an object with a name
  Names,  ///< a list of those
  Known,  ///< an integer, a real, a bool or a text, by kind
  Knowns, ///< a list of those
  Sym,    ///< a name or a constant
  Syms,
  Optional, ///< a name or none
  Optionals,
  Device,
  Complex,
  Graph,
  KnownLists,
  NameLists,
};

struct Tag {
  std::string_view name;
  Form form;
  Kind kind;
};

constexpr std::array<Tag, 30> kTags = {{
    {"as_none", Form::None, Kind::None},
    {"as_tensor", Form::Name, Kind::Tensor},
    {"as_tensors", Form::Names, Kind::Tensor},
    {"as_int", Form::Known, Kind::Int},
    {"as_ints", Form::Knowns, Kind::Int},
    {"as_float", Form::Known, Kind::Float},
    {"as_floats", Form::Knowns, Kind::Float},
    {"as_string", Form::Known, Kind::String},
    {"as_strings", Form::Knowns, Kind::String},
    {"as_sym_int", Form::Sym, Kind::SymInt},
    {"as_sym_ints", Form::Syms, Kind::SymInt},
    {"as_scalar_type", Form::Known, Kind::ScalarType},
    {"as_memory_format", Form::Known, Kind::MemoryFormat},
    {"as_layout", Form::Known, Kind::Layout},
    {"as_device", Form::Device, Kind::Device},
    {"as_bool", Form::Known, Kind::Bool},
    {"as_bools", Form::Knowns, Kind::Bool},
    {"as_sym_bool", Form::Sym, Kind::SymBool},
    {"as_sym_bools", Form::Syms, Kind::SymBool},
    {"as_graph", Form::Graph, Kind::Graph},
    {"as_optional_tensor", Form::Optional, Kind::Tensor},
    {"as_optional_tensors", Form::Optionals, Kind::Tensor},
    {"as_operator", Form::Known, Kind::Other},
    {"as_sym_float", Form::Sym, Kind::SymFloat},
    {"as_sym_floats", Form::Syms, Kind::SymFloat},
    {"as_complex", Form::Complex, Kind::Complex},
    {"as_nested_tensors", Form::NameLists, Kind::Tensor},
    {"as_int_lists", Form::KnownLists, Kind::Int},
    {"as_custom_obj", Form::None, Kind::Other},
    {"as_string_to_argument", Form::None, Kind::Other},
}};

class ProgramReader {
public:
  Result<Program> read(const Json &root);

private:
  Argument argument(const Json &value);
  Argument ofForm(const Tag &tag, const Json &value);
  Argument known(Kind kind, const Json &value);
  Argument sym(Kind kind, const Json &value);
  Argument named(Kind kind, const Json &value);
  Argument optional(const Json &value);
  template <typename Read> Argument list(const Json &value, Read read);
  Graph graph(const Json &value);
  Node node(const Json &value);
  void inputSpec(const Json &value, Program &program);
  void outputSpec(const Json &value, Program &program);
  void ranges(const Json &value, Program &program);
  std::vector<std::string> texts(const Json &value);

  JsonReader json;
  unsigned depth = 0;
  size_t nodes = 0;
};

Argument ProgramReader::known(Kind kind, const Json &value) {
  Argument result;
  result.kind = kind;
  if (kind == Kind::Float) {
    result.real = json.real(value, "a float argument");
  } else if (kind == Kind::String || kind == Kind::Other) {
    if (!value.is_string()) {
      json.fail("a text argument", "is not text");
      return result;
    }
    result.text = value.get<std::string>();
  } else if (kind == Kind::Bool) {
    if (!value.is_boolean()) {
      json.fail("a bool argument", "is not a bool");
      return result;
    }
    result.integer = value.get<bool>();
  } else {
    result.integer = json.integerOf(value, "an integer argument");
  }
  return result;
}

Argument ProgramReader::named(Kind kind, const Json &value) {
  Argument result;
  result.kind = kind;
  result.text = json.text(value, "name");
  return result;
}

Argument ProgramReader::sym(Kind kind, const Json &value) {
  auto [tag, content] = json.tagged(value, "a symbolic argument");
  if (tag != "as_name") {
    return known(tag == "as_float"  ? Kind::Float
                 : tag == "as_bool" ? Kind::Bool
                                    : Kind::Int,
                 *content);
  }
  Argument result;
  result.kind = kind;
  result.text = content->is_string() ? content->get<std::string>() : std::string();
  return result;
}

Argument ProgramReader::optional(const Json &value) {
  auto [tag, content] = json.tagged(value, "an optional tensor");
  return tag == "as_tensor" ? named(Kind::Tensor, *content) : Argument();
}

template <typename Read> Argument ProgramReader::list(const Json &value, Read read) {
  Argument result;
  result.kind = Kind::List;
  if (!value.is_array()) {
    json.fail("a list argument", "is not a list");
    return result;
  }
  for (const Json &element : value) {
    result.elements.push_back(read(element));
  }
  return result;
}

Argument ProgramReader::ofForm(const Tag &tag, const Json &value) {
  auto readKnown = [&](const Json &element) { return known(tag.kind, element); };
  auto readName = [&](const Json &element) { return named(tag.kind, element); };
  Argument result;
  switch (tag.form) {
  case Form::None:
    result.kind = tag.kind;
    result.text = tag.name;
    return result;
  case Form::Name:
    return named(tag.kind, value);
  case Form::Names:
    return list(value, readName);
  case Form::Known:
    return known(tag.kind, value);
  case Form::Knowns:
    return list(value, readKnown);
  case Form::Sym:
    return sym(tag.kind, value);
  case Form::Syms:
    return list(value, [&](const Json &element) { return sym(tag.kind, element); });
  case Form::Optional:
    return optional(value);
  case Form::Optionals:
    return list(value, [&](const Json &element) { return optional(element); });
  case Form::Device:
    result.kind = tag.kind;
    result.text = json.text(value, "type");
    return result;
  case Form::Complex:
    result.kind = tag.kind;
    return result;
  case Form::Graph:
    result.kind = tag.kind;
    result.text = json.text(value, "name");
    result.graph = std::make_shared<Graph>(graph(json.object(value, "graph")));
    return result;
  case Form::KnownLists:
    return list(value, [&](const Json &inner) { return list(inner, readKnown); });
  case Form::NameLists:
    return list(value, [&](const Json &inner) { return list(inner, readName); });
  }
  return result;
}

Argument ProgramReader::argument(const Json &value) {
  auto [name, content] = json.tagged(value, "an argument");
  for (const Tag &tag : kTags) {
    if (tag.name == name) {
      return ofForm(tag, *content);
    }
  }
  Argument other;
  other.kind = Kind::Other;
  other.text = name;
  return other;
}

Node ProgramReader::node(const Json &value) {
  Node result;
  result.target = json.text(value, "target");
  for (const Json &input : json.array(value, "inputs")) {
    const Json *content = json.member(input, "arg");
    if (json.failed()) {
      return result;
    }
    result.inputs.push_back({json.text(input, "name"), argument(*content)});
  }
  for (const Json &output : json.array(value, "outputs")) {
    result.outputs.push_back(argument(output));
  }
  if (const Json *name = json.optionalMember(value, "name"); name && name->is_string()) {
    result.name = name->get<std::string>();
  } else if (!result.outputs.empty()) {
    result.name = result.outputs.front().text;
  }
  if (const Json *metadata = json.optionalMember(value, "metadata");
      metadata && metadata->is_object()) {
    if (const Json *trace = json.optionalMember(*metadata, "stack_trace");
        trace && trace->is_string()) {
      result.stackTrace = trace->get<std::string>();
    }
    if (const Json *stack = json.optionalMember(*metadata, "nn_module_stack");
        stack && stack->is_string()) {
      result.modules = innermostModule(stack->get_ref<const std::string &>());
    }
  }
  return result;
}

Graph ProgramReader::graph(const Json &value) {
  Graph result;
  if (++depth > kMaxNesting) {
    json.fail("graph", "is nested too deeply");
  }
  for (const Json &input : json.array(value, "inputs")) {
    result.inputs.push_back(argument(input));
  }
  for (const Json &output : json.array(value, "outputs")) {
    result.outputs.push_back(argument(output));
  }
  for (const Json &element : json.array(value, "nodes")) {
    if (json.failed() || ++nodes > kMaxNodes) {
      json.fail("nodes", "are too many");
      break;
    }
    result.nodes.push_back(node(element));
  }
  for (const auto &[name, meta] : json.object(value, "tensor_values").items()) {
    result.tensors.emplace(name, tensorMeta(json, meta));
  }
  for (const auto &[name, size] : json.object(value, "sym_int_values").items()) {
    result.sizes.emplace(name, sizeOf(json, size));
  }
  --depth;
  return result;
}

void ProgramReader::inputSpec(const Json &value, Program &program) {
  auto [kind, content] = json.tagged(value, "input_specs");
  InputSpec spec;
  if (kind == "user_input") {
    const Json *content2 = json.member(*content, "arg");
    spec.argument = content2 ? argument(*content2) : Argument();
  } else if (kind == "parameter" || kind == "buffer" || kind == "tensor_constant") {
    spec.kind = kind == "parameter" ? InputSpec::Kind::Parameter
                : kind == "buffer"  ? InputSpec::Kind::Buffer
                                    : InputSpec::Kind::Constant;
    spec.argument = named(Kind::Tensor, json.object(*content, "arg"));
    spec.target = json.text(*content, (kind + "_name").c_str());
  } else if (kind == "constant_input") {
    spec.kind = InputSpec::Kind::Value;
    spec.argument = argument(json.object(*content, "value"));
    spec.target = json.text(*content, "name");
  } else {
    spec.kind = InputSpec::Kind::Other;
    spec.target = kind;
  }
  program.inputs.push_back(std::move(spec));
}

void ProgramReader::outputSpec(const Json &value, Program &program) {
  auto [kind, content] = json.tagged(value, "output_specs");
  OutputSpec spec;
  if (kind == "user_output") {
    const Json *inner = json.member(*content, "arg");
    spec.argument = inner ? argument(*inner) : Argument();
  } else if (kind == "buffer_mutation" || kind == "user_input_mutation") {
    bool isBuffer = kind == "buffer_mutation";
    spec.kind = isBuffer ? OutputSpec::Kind::BufferMutation : OutputSpec::Kind::InputMutation;
    spec.argument = named(Kind::Tensor, json.object(*content, "arg"));
    spec.target = json.text(*content, isBuffer ? "buffer_name" : "user_input_name");
  } else {
    spec.kind = OutputSpec::Kind::Other;
    spec.target = kind;
  }
  program.outputs.push_back(std::move(spec));
}

void ProgramReader::ranges(const Json &value, Program &program) {
  for (const auto &[name, range] : value.items()) {
    Range result{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    if (const Json *min = json.optionalMember(range, "min_val")) {
      result.min = json.integerOf(*min, "min_val");
    }
    if (const Json *max = json.optionalMember(range, "max_val")) {
      result.max = json.integerOf(*max, "max_val");
    }
    if (result.min > result.max) {
      json.fail(name, "has a range without a value");
    }
    program.ranges[name] = result;
  }
}

std::vector<std::string> ProgramReader::texts(const Json &value) {
  std::vector<std::string> result;
  for (const Argument &text :
       list(value, [&](const Json &each) { return known(Kind::String, each); }).elements) {
    result.push_back(text.text);
  }
  return result;
}

Result<Program> ProgramReader::read(const Json &root) {
  Program program;
  int64_t major = json.integer(json.object(root, "schema_version"), "major");
  if (json.failed()) {
    return json.takeFailure();
  }
  if (major != kSchemaMajor) {
    return Status::error(
        ErrorId::Pt2UnknownVersion,
        strCat("the program has version ", major, " of PyTorch's schema, Tenon reads ",
               kSchemaMajor),
        "load it with a PyTorch that reads it and save it with one of 2.6 to 2.11");
  }
  const Json &module = json.object(root, "graph_module");
  program.graph = graph(json.object(module, "graph"));
  const Json &signature = json.object(module, "signature");
  for (const Json &spec : json.array(signature, "input_specs")) {
    inputSpec(spec, program);
  }
  for (const Json &spec : json.array(signature, "output_specs")) {
    outputSpec(spec, program);
  }
  ranges(json.object(root, "range_constraints"), program);
  if (const Json *guards = json.optionalMember(root, "guards_code")) { // of PyTorch 2.9 and later
    program.guards = texts(*guards);
  }
  if (const Json *calls = json.optionalMember(module, "module_call_graph")) {
    program.outputNames = outputNames(*calls);
  }
  if (const Json *version = json.optionalMember(root, "torch_version");
      version && version->is_string()) {
    program.torchVersion = version->get<std::string>();
  }
  if (json.failed()) {
    return json.takeFailure();
  }
  return program;
}

} // namespace

Result<Program> readProgram(std::string_view text) {
  TENON_ASSIGN(Json root, parseProgramJson(text, "models/model.json"));
  return ProgramReader().read(root);
}

} // namespace tenon::pt2

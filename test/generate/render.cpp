// Renders the templates of a JSON file, for text.py: [{"template": ..., "context": {...}}, ...]
// becomes
// [{"text": ...} or {"error": ...}, ...].
#include "generate/template/Interpreter.h"
#include "generate/template/Parser.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <iostream>

namespace {

using namespace tenon::generate::jinja;
using OrderedJson = nlohmann::ordered_json;

Value valueOf(const OrderedJson &json) {
  if (json.is_null()) {
    return {};
  }
  if (json.is_boolean()) {
    return Value(json.get<bool>());
  }
  if (json.is_number_integer()) {
    return Value(json.get<int64_t>());
  }
  if (json.is_number()) {
    return Value(json.get<double>());
  }
  if (json.is_string()) {
    return Value(Text::ofData(json.get_ref<const std::string &>()));
  }
  if (json.is_array()) {
    List list;
    for (const OrderedJson &element : json) {
      list.push_back(valueOf(element));
    }
    return Value(std::move(list));
  }
  Dict dict;
  for (const auto &[key, entry] : json.items()) {
    dict.emplace_back(Value(Text::ofData(key)), valueOf(entry));
  }
  return Value(std::move(dict));
}

OrderedJson render(const OrderedJson &test) {
  tenon::Result<Body> program = parseTemplate(test.at("template").get<std::string>());
  if (!program) {
    return {{"error", program.status().message()}};
  }
  Value context = valueOf(test.at("context"));
  tenon::Result<Text> text = Interpreter(*program, {}).render(*context.dict());
  return text ? OrderedJson{{"text", text->bytes}}
              : OrderedJson{{"error", text.status().message()}};
}

} // namespace

int main(int, char **arguments) {
  OrderedJson results = OrderedJson::array();
  OrderedJson tests = OrderedJson::parse(std::ifstream(arguments[1]));
  for (const OrderedJson &test : tests) {
    results.push_back(render(test));
  }
  std::cout << results.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
}

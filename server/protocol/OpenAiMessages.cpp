// Tools go on as JSON: what templates read of them is theirs.

#include "server/protocol/OpenAiMessages.h"

#include "support/json/StrictJson.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>

namespace tenon::server {
namespace {

constexpr size_t kMaxTools = 128, kMaxName = 64, kMaxCalls = 128;

/// Refuses members of an object that are not known and say something.
Status checkMembers(const std::string &where, const Json &value,
                    std::span<const std::string_view> known) {
  for (const auto &[name, field] : value.items()) {
    bool isNothing = field.is_null() || (field.is_array() && field.empty());
    if (std::ranges::find(known, name) == known.end() && !isNothing) {
      return unsupportedField(fmt::format("{}.{}", where, name.substr(0, 32)));
    }
  }
  return Status::ok();
}

/// A function's name as OpenAI has it.
bool isName(const Json &value) {
  if (!value.is_string()) {
    return false;
  }
  const std::string &name = value.get_ref<const std::string &>();
  return !name.empty() && name.size() <= kMaxName && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
  });
}

Status readTextParts(const std::string &where, const Json &parts, std::string &content) {
  for (const Json &part : parts) {
    bool isText = part.is_object() && part.value("type", Json()) == "text" &&
                  part.value("text", Json()).is_string();
    if (!isText) {
      return wrongField(where, "has a part other than text, which is not supported");
    }
    content += part["text"].get<std::string>();
  }
  return Status::ok();
}

/// The arguments of a call, which are JSON in a string.
Result<Json> readArguments(const std::string &where, const Json &value) {
  constexpr JsonLimits kLimits = {.maxDepth = 32, .maxValues = 100'000, .isObject = true};
  Json arguments = Json::object();
  bool isText = value.is_string();
  if (isText && value != "" &&
      parseStrict(value.get_ref<const std::string &>(), kLimits, arguments)) {
    isText = false;
  }
  return isText ? Result<Json>(std::move(arguments))
                : Result<Json>(wrongField(where, "must be the text of a JSON object"));
}

Status readCalls(const std::string &where, const Json &value, ChatMessage &message) {
  if (!value.is_array() || value.size() > kMaxCalls) {
    return wrongField(where, fmt::format("must be a list of at most {} calls", kMaxCalls));
  }
  Json calls = Json::array();
  for (size_t i = 0; i < value.size(); ++i) {
    std::string each = fmt::format("{}[{}]", where, i);
    const Json &call = value[i];
    bool isCall = call.is_object() && call.value("id", Json()).is_string() &&
                  call.value("type", Json("function")) == "function" &&
                  call.value("function", Json()).is_object();
    if (!isCall) {
      return wrongField(each, "must be a call of a function with its 'id'");
    }
    const Json &function = call["function"];
    if (!isName(function.value("name", Json()))) {
      return wrongField(each + ".function.name", "must be the name of a function");
    }
    TENON_ASSIGN(Json arguments,
                 readArguments(each + ".function.arguments", function.value("arguments", Json())));
    calls.push_back(
        {{"id", call["id"]}, {"name", function["name"]}, {"arguments", std::move(arguments)}});
  }
  message.calls = calls.empty() ? std::string() : dumpJson(calls);
  return Status::ok();
}

} // namespace

Status wrongField(std::string_view field, std::string_view what) {
  return Status::error(ErrorId::BadRequest, fmt::format("'{}' {}", field, what));
}

Status unsupportedField(std::string_view field) {
  return Status::error(ErrorId::BadRequest,
                       fmt::format("the field '{}' is not supported", field.substr(0, 64)),
                       "leave it out");
}

Status readChatMessage(const std::string &where, const Json &value, ChatMessage &message) {
  constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  constexpr std::string_view kAlways[] = {"role", "content"};
  constexpr std::string_view kOfAssistant[] = {"role", "content", "tool_calls"};
  constexpr std::string_view kOfTool[] = {"role", "content", "tool_call_id"};
  if (!value.is_object()) {
    return wrongField(where, "must be an object with 'role' and 'content'");
  }
  Json role = value.value("role", Json()), content = value.value("content", Json());
  if (!role.is_string() || std::ranges::find(kRoles, role.get<std::string>()) == std::end(kRoles)) {
    return wrongField(where + ".role", "must be system, developer, user, assistant or tool");
  }
  TENON_TRY(checkMembers(where, value,
                         role == "assistant" ? std::span<const std::string_view>(kOfAssistant)
                         : role == "tool"    ? std::span<const std::string_view>(kOfTool)
                                             : std::span<const std::string_view>(kAlways)));
  message.role = role == "developer" ? "system" : role.get<std::string>();
  if (Json calls = value.value("tool_calls", Json()); !calls.is_null()) {
    TENON_TRY(readCalls(where + ".tool_calls", calls, message));
  }
  if (message.role == "tool") {
    Json id = value.value("tool_call_id", Json());
    if (!id.is_string()) {
      return wrongField(where + ".tool_call_id", "must be the id of the call that it answers");
    }
    message.callId = id.get<std::string>();
  }
  if (content.is_array()) {
    return readTextParts(where + ".content", content, message.content);
  }
  if (content.is_null() && !message.calls.empty()) {
    return Status::ok();
  }
  if (!content.is_string()) {
    return wrongField(where + ".content", "must be a string");
  }
  message.content = content.get<std::string>();
  return Status::ok();
}

Status readResponseFormat(const Json &value, TextOptions &options) {
  constexpr std::string_view kKnown[] = {"type", "json_schema"};
  constexpr std::string_view kOfSchema[] = {"name", "description", "schema", "strict"};
  Json type = value.is_object() ? value.value("type", Json()) : Json();
  if (type != "text" && type != "json_object" && type != "json_schema") {
    return wrongField("response_format",
                      "must be an object whose 'type' is text, json_object or json_schema");
  }
  TENON_TRY(checkMembers("response_format", value, kKnown));
  options.format = type == "text"          ? TextFormat::Any
                   : type == "json_object" ? TextFormat::Object
                                           : TextFormat::Schema;
  if (options.format != TextFormat::Schema) {
    return Status::ok();
  }
  const std::string where = "response_format.json_schema";
  Json given = value.value("json_schema", Json());
  if (!given.is_object() || !given.contains("schema")) {
    return wrongField(where, "must be an object with 'name' and 'schema'");
  }
  TENON_TRY(checkMembers(where, given, kOfSchema));
  options.schema = dumpJson(given["schema"]);
  return Status::ok();
}

Status readTools(const Json &value, ToolOptions &tools) {
  constexpr std::string_view kOfTool[] = {"type", "function"};
  constexpr std::string_view kOfFunction[] = {"name", "description", "parameters", "strict"};
  if (!value.is_array() || value.size() > kMaxTools) {
    return wrongField("tools", fmt::format("must be a list of at most {} tools", kMaxTools));
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < value.size(); ++i) {
    std::string where = fmt::format("tools[{}]", i);
    const Json &tool = value[i];
    if (!tool.is_object() || tool.value("type", Json()) != "function" ||
        !tool.value("function", Json()).is_object()) {
      return wrongField(where, "must be a tool of type 'function', others are not supported");
    }
    const Json &function = tool["function"];
    TENON_TRY(checkMembers(where, tool, kOfTool));
    TENON_TRY(checkMembers(where + ".function", function, kOfFunction));
    if (!isName(function.value("name", Json()))) {
      return wrongField(where + ".function.name",
                        "must be 1 to 64 letters, digits, '_', '-' and '.'");
    }
    Json strict = function.value("strict", Json()), text = function.value("description", Json()),
         parameters = function.value("parameters", Json());
    if ((!strict.is_null() && !strict.is_boolean()) || (!text.is_null() && !text.is_string()) ||
        (!parameters.is_null() && !parameters.is_object())) {
      return wrongField(where + ".function", "has a member of the wrong type");
    }
    names.push_back(function["name"].get<std::string>());
    if (std::ranges::count(names, names.back()) > 1) {
      return wrongField(where + ".function.name", "is the name of an earlier one");
    }
  }
  tools.list = value.empty() ? std::string() : dumpJson(value);
  return Status::ok();
}

Status readToolChoice(const Json &value, ToolOptions &tools) {
  constexpr std::pair<std::string_view, ToolChoice> kChoices[] = {
      {"auto", ToolChoice::Auto}, {"none", ToolChoice::None}, {"required", ToolChoice::Required}};
  for (auto [name, choice] : kChoices) {
    if (value == name) {
      tools.choice = choice;
      return Status::ok();
    }
  }
  bool isNamed = value.is_object() && value.size() == 2 &&
                 value.value("type", Json()) == "function" &&
                 value.value("function", Json()).is_object() && value["function"].size() == 1 &&
                 isName(value["function"].value("name", Json()));
  if (!isNamed) {
    return wrongField("tool_choice", "must be auto, none, required, or name a function");
  }
  tools.choice = ToolChoice::Named;
  tools.name = value["function"]["name"].get<std::string>();
  return Status::ok();
}

Status checkTools(const ToolOptions &tools, std::string &field) {
  field = "tool_choice";
  if (tools.choice == ToolChoice::Auto || tools.choice == ToolChoice::None) {
    return Status::ok();
  }
  if (tools.list.empty()) {
    return wrongField(field, "needs 'tools'");
  }
  Json list = parseJson(tools.list);
  bool isThere =
      tools.choice == ToolChoice::Required || std::ranges::any_of(list, [&](const Json &tool) {
        return tool["function"]["name"] == tools.name;
      });
  return isThere ? Status::ok() : wrongField(field, "names a function that 'tools' has not");
}

} // namespace tenon::server

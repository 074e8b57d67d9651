// What is asked becomes a body of OpenAI's interface: there each field is read and refused once.

#include "server/grpc/TextInfer.h"

#include "server/grpc/Framing.h"
#include "server/protocol/Json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::server {
namespace {

using protozero::pbf_reader;
using protozero::tag_and_type;
using Wire = protozero::pbf_wire_type;

std::string stringOf(protozero::data_view view) { return std::string(view.data(), view.size()); }

Json parameterValue(pbf_reader value) {
  Json json;
  while (value.next()) {
    switch (value.tag_and_type()) {
    case tag_and_type(1, Wire::varint):
      json = value.get_bool();
      break;
    case tag_and_type(2, Wire::varint):
      json = value.get_int64();
      break;
    case tag_and_type(3, Wire::length_delimited):
      json = stringOf(value.get_view());
      break;
    case tag_and_type(4, Wire::fixed64):
      json = value.get_double();
      break;
    case tag_and_type(5, Wire::varint):
      json = value.get_uint64();
      break;
    default:
      value.skip();
    }
  }
  return json;
}

/// Adds an entry of the map of parameters to a body.
Status addField(pbf_reader entry, Json &body) {
  std::string key;
  Json value;
  while (entry.next()) {
    if (entry.tag_and_type() == tag_and_type(1, Wire::length_delimited)) {
      key = stringOf(entry.get_view());
    } else if (entry.tag_and_type() == tag_and_type(2, Wire::length_delimited)) {
      value = parameterValue(entry.get_message());
    } else {
      entry.skip();
    }
  }
  // A parameter has no lists and no objects: where a field is one, its text is JSON.
  constexpr std::string_view kJson[] = {"logit_bias", "response_format", "tools", "tool_choice"};
  bool isJson = std::ranges::find(kJson, key) != std::end(kJson);
  if (isJson && value.is_string()) {
    std::string text = value.get<std::string>();
    TENON_TRY(parseRequestJson(text, value));
  }
  if (key == "timeout" && value.is_number_integer()) {
    constexpr double kMicroseconds = 1e6;
    value = value.get<double>() / kMicroseconds; // as of other inferences
  }
  if (key != "triton_enable_empty_final_response") { // asks for what is done without it
    body[key] = std::move(value);
  }
  return Status::ok();
}

struct TextInput {
  std::string name, datatype;
  std::optional<std::string> text; ///< of its contents
};

TextInput readPromptInput(pbf_reader reader) {
  TextInput input;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
    case tag_and_type(1, Wire::length_delimited):
      input.name = stringOf(reader.get_view());
      break;
    case tag_and_type(2, Wire::length_delimited):
      input.datatype = stringOf(reader.get_view());
      break;
    case tag_and_type(5, Wire::length_delimited): {
      constexpr uint32_t kBytes = 8;
      pbf_reader contents = reader.get_message();
      while (contents.next(kBytes, Wire::length_delimited)) {
        input.text = stringOf(contents.get_view());
      }
      break;
    }
    default:
      reader.skip();
    }
  }
  return input;
}

/// The only element of a tensor of BYTES: its length in four bytes, then the bytes.
Result<std::string> elementOf(std::string_view raw) {
  uint32_t bytes = 0;
  if (raw.size() >= sizeof(bytes)) {
    std::memcpy(&bytes, raw.data(), sizeof(bytes));
    raw.remove_prefix(sizeof(bytes));
    if (bytes == raw.size()) {
      return std::string(raw);
    }
  }
  return Status::error(ErrorId::BadRequestTensor, "the prompt is not one element of BYTES",
                       "its shape is [1]");
}

Result<std::optional<GrpcTextRequest>> parseText(std::string_view message) {
  GrpcTextRequest request;
  Json body = Json::object();
  std::vector<TextInput> inputs;
  std::vector<std::string_view> raw;
  std::string version;
  std::vector<pbf_reader> parameters;
  pbf_reader reader(message.data(), message.size());
  while (reader.next()) {
    switch (reader.tag_and_type()) {
    case tag_and_type(1, Wire::length_delimited):
      request.model = stringOf(reader.get_view());
      break;
    case tag_and_type(2, Wire::length_delimited):
      version = stringOf(reader.get_view());
      break;
    case tag_and_type(3, Wire::length_delimited):
      request.id = stringOf(reader.get_view());
      break;
    case tag_and_type(4, Wire::length_delimited):
      parameters.push_back(reader.get_message());
      break;
    case tag_and_type(5, Wire::length_delimited):
      inputs.push_back(readPromptInput(reader.get_message()));
      break;
    case tag_and_type(7, Wire::length_delimited): {
      protozero::data_view view = reader.get_view();
      raw.emplace_back(view.data(), view.size());
      break;
    }
    default:
      reader.skip();
    }
    if (!inputs.empty() && inputs[0].datatype != "BYTES") {
      return std::optional<GrpcTextRequest>();
    }
  }
  request.isChat = !inputs.empty() && inputs[0].name == "messages";
  if (inputs.empty() || (!request.isChat && inputs[0].name != "text_input")) {
    return std::optional<GrpcTextRequest>();
  }
  if (inputs.size() > 1 || raw.size() > 1 || (!inputs[0].text && raw.empty())) {
    return Status::error(ErrorId::BadRequestTensor,
                         "a request to a language model has one input with one element",
                         "text_input is a prompt, messages a list of messages as JSON");
  }
  if (!version.empty()) {
    return Status::error(ErrorId::NotServed, "a text is continued by no version of one's choice",
                         "leave out model_version");
  }
  std::string text = inputs[0].text.value_or("");
  if (!inputs[0].text) {
    TENON_ASSIGN(text, elementOf(raw[0]));
  }
  for (pbf_reader &parameter : parameters) {
    TENON_TRY(addField(parameter, body));
  }
  body["model"] = request.model;
  body["stream"] = true;
  if (request.isChat) {
    TENON_TRY(parseRequestJson(text, body["messages"]));
  } else {
    body["prompt"] = std::move(text);
  }
  request.body = body.dump();
  return std::optional<GrpcTextRequest>(std::move(request));
}

class ParameterWriter {
public:
  explicit ParameterWriter(protozero::pbf_writer &response) : response(response) {}

  void number(std::string_view key, uint64_t value) {
    add(key, [&](protozero::pbf_writer each) { each.add_int64(2, static_cast<int64_t>(value)); });
  }
  void real(std::string_view key, double value) {
    add(key, [&](protozero::pbf_writer each) { each.add_double(4, value); });
  }
  void flag(std::string_view key, bool value) {
    add(key, [&](protozero::pbf_writer each) { each.add_bool(1, value); });
  }
  void text(std::string_view key, std::string_view value) {
    add(key, [&](protozero::pbf_writer each) { each.add_string(3, value.data(), value.size()); });
  }

private:
  template <typename Write> void add(std::string_view key, const Write &write) {
    protozero::pbf_writer entry(response, 4);
    entry.add_string(1, key.data(), key.size());
    write(protozero::pbf_writer(entry, 2));
  }

  protozero::pbf_writer &response;
};

} // namespace

Result<std::optional<GrpcTextRequest>> parseGrpcText(std::string_view message) {
  try {
    return parseText(message);
  } catch (const protozero::exception &error) {
    return malformedMessage(error.what());
  } catch (const Json::exception &) {
    return Status::error(ErrorId::BadRequest, "a text of the request is not UTF-8");
  }
}

std::vector<Piece> writeGrpcText(const TextRecord &record, std::string_view id, uint64_t index,
                                 const TextPiece &piece, bool isLast) {
  std::string message;
  {
    constexpr uint32_t kInferResponse = 2;
    protozero::pbf_writer outer(message), response(outer, kInferResponse);
    response.add_string(1, record.model);
    response.add_string(2, record.version);
    response.add_string(3, id.data(), id.size());
    ParameterWriter parameters(response);
    // Clients of streams look for the last of a request's replies by it.
    parameters.flag("triton_final_response", isLast);
    parameters.number("index", index);
    parameters.number("token", static_cast<uint64_t>(piece.token.token));
    parameters.real("logprob", piece.token.logprob);
    if (piece.finish != TextFinish::None) {
      parameters.text("finish_reason", piece.finish == TextFinish::Length ? "length" : "stop");
    }
    if (isLast) {
      parameters.number("prompt_tokens", record.promptTokens);
      parameters.number("cached_tokens", record.cachedTokens);
      parameters.number("completion_tokens", record.answerTokens);
    }
    {
      protozero::pbf_writer output(response, 5);
      output.add_string(1, "text_output");
      output.add_string(2, "BYTES");
      int64_t dim = 1;
      output.add_packed_int64(3, &dim, &dim + 1);
    }
    std::string raw(sizeof(uint32_t), '\0');
    uint32_t bytes = static_cast<uint32_t>(piece.text.size());
    std::memcpy(raw.data(), &bytes, sizeof(bytes));
    response.add_bytes(6, raw + piece.text);
  }
  return {{messagePrefix(message.size()) + message, {}, nullptr}};
}

} // namespace tenon::server

// JSON without a tree in between.

#include "server/protocol/Answer.h"

#include "server/protocol/JsonText.h"

#include <utility>

namespace tenon::server {
namespace {

class JsonAnswer final : public AnswerWriter {
public:
  std::string json;

  void begin(std::string_view name) override { open(name, "{", '}'); }
  void beginList(std::string_view name) override { open(name, "[", ']'); }
  void end() override {
    json += closers.back();
    closers.pop_back();
    isFirst = false;
  }
  void text(std::string_view name, std::string_view value) override {
    key(name);
    appendJsonString(json, value);
  }
  void flag(std::string_view name, bool value) override {
    key(name);
    json += value ? "true" : "false";
  }
  void number(std::string_view name, uint64_t value) override {
    key(name);
    json += std::to_string(value);
  }
  void numbers(std::string_view name, std::span<const int64_t> values) override {
    beginList(name);
    for (int64_t value : values) {
      key({});
      json += std::to_string(value);
    }
    end();
  }
  void texts(std::string_view name, std::span<const std::string> values) override {
    beginList(name);
    for (const std::string &value : values) {
      text({}, value);
    }
    end();
  }

private:
  void key(std::string_view name) {
    json += std::exchange(isFirst, false) ? "" : ",";
    if (closers.ends_with('}')) {
      appendJsonString(json, name);
      json += ':';
    }
  }
  void open(std::string_view name, std::string_view opener, char closer) {
    key(name);
    json += opener;
    closers += closer;
    isFirst = true;
  }

  std::string closers; ///< of what is begun
  bool isFirst = true;
};

} // namespace

Answer flagAnswer(std::string_view name, bool value) {
  return [name, value](AnswerWriter &writer) {
    writer.begin();
    writer.flag(name, value);
    writer.end();
  };
}

std::string textOf(const Answer &answer) {
  if (const std::string *text = std::get_if<std::string>(&answer)) {
    return *text;
  }
  JsonAnswer writer;
  std::get<1>(answer)(writer);
  return std::move(writer.json);
}

} // namespace tenon::server

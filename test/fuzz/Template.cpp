// Chat templates: parsed, and run over a short conversation within small limits.
#include "generate/template/Interpreter.h"
#include "generate/template/Parser.h"
#include "test/fuzz/Fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace tenon::generate::jinja;
  auto text = [](std::string_view bytes) { return Value(Text::ofData(bytes)); };
  tenon::Result<Body> program =
      parseTemplate(std::string_view(reinterpret_cast<const char *>(data), size));
  if (program) {
    Value message(Dict{{text("role"), text("user")}, {text("content"), text("a <|b|>\n\xc3\xa9")}});
    Interpreter interpreter(*program, {.steps = 50'000, .bytes = size_t{1} << 20});
    (void)interpreter.render({{text("messages"), Value(List{message, message})}}).status().isOk();
  }
  return 0;
}

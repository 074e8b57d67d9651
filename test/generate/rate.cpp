// Tokens in a second of a service without a server: `generate_rate ENGINE THREADS TOKENS`. Each
// line of the input is a round: prompts as lists of tokens, "1,2,3;4,5". Of each, a line with its
// tokens and seconds is printed.
#include "generate/service/TextService.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

using tenon::Result;
using tenon::Status;
using namespace tenon::generate;

namespace {

std::vector<std::vector<int32_t>> promptsOf(const std::string &line) {
  std::vector<std::vector<int32_t>> prompts;
  std::istringstream lists(line);
  for (std::string list; std::getline(lists, list, ';');) {
    std::istringstream numbers(list);
    std::vector<int32_t> &prompt = prompts.emplace_back();
    for (std::string number; std::getline(numbers, number, ',');) {
      prompt.push_back(std::atoi(number.c_str()));
    }
  }
  return prompts;
}

} // namespace

int main(int count, char **arguments) {
  if (count != 4) {
    return 2;
  }
  tenon_engine_options engine = {};
  engine.struct_size = sizeof(engine);
  Result<std::unique_ptr<LanguageModel>> model = LanguageModel::open(arguments[1], engine);
  if (!model) {
    std::cerr << model.status().toString() << '\n';
    return 1;
  }
  Result<std::unique_ptr<TextService>> service =
      TextService::create(**model, {.threads = static_cast<unsigned>(std::atoi(arguments[2]))});
  if (!service) {
    std::cerr << service.status().toString() << '\n';
    return 1;
  }
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    uint64_t id = 0;
    int64_t tokens = 0;
    ServiceClock::time_point begun = ServiceClock::now();
    for (std::vector<int32_t> &prompt : promptsOf(line)) {
      TextRequest request{.id = ++id, .prompt = std::move(prompt)};
      request.options.maxTokens = std::atoi(arguments[3]);
      for (int32_t end : (*model)->tokenizer().vocabulary().ends) {
        request.options.sampling.bias.emplace_back(end, -100);
      }
      if (Status status = (*service)->submit(std::move(request)); !status) {
        std::cerr << status.toString() << '\n';
        return 1;
      }
    }
    while (!(*service)->isIdle()) {
      Status status =
          (*service)->step([&](uint64_t, Result<Piece> piece) { tokens += piece.isOk(); });
      if (!status) {
        std::cerr << status.toString() << '\n';
        return 1;
      }
    }
    std::cout << tokens << ' ' << std::chrono::duration<double>(ServiceClock::now() - begun).count()
              << std::endl;
  }
  return 0;
}

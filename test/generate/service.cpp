// Runs random schedules of a service over an engine: `generate_service ENGINE SCHEDULES
// TOLERANCE`. Each answer has the tokens that it has alone, with logprobs as near as the tolerance;
// with 0, those of the whole vocabulary are equal to the bit. Prints what was counted.
#include "generate/service/TextService.h"
#include "test/unit/generate/Schedules.h"

#include <cstdio>
#include <cstdlib>
#include <string>

using tenon::Result;
using tenon::Status;
using namespace tenon::generate;

namespace {

/// On a service of its own, without chunks.
Heard aloneOn(TextService &service, TextRequest request) {
  Heard heard;
  heard.error = service.submit(std::move(request));
  while (!service.isIdle()) {
    Status status = service.step([&](uint64_t, Result<Piece> piece) {
      if (piece) {
        heard.hear(*piece);
      } else {
        heard.error = piece.takeStatus();
      }
    });
  }
  return heard;
}

int fail(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

} // namespace

int main(int, char **arguments) {
  tenon_engine_options options = {};
  options.struct_size = sizeof(options);
  Result<std::unique_ptr<LanguageModel>> opened = LanguageModel::open(arguments[1], options);
  if (!opened) {
    return fail(opened.status().toString());
  }
  const LanguageModel &model = **opened;
  Stage stage{.tokenizer = &model.tokenizer(),
              .facts = model.facts(),
              .engine =
                  [&] {
                    return model.pages() ? PagedEngine::create(model, 1, model.pages()->table)
                                         : SequenceEngine::create(model, 3, 1);
                  },
              .alone =
                  [&](const TextRequest &request) {
                    TextRequest own = request;
                    own.salt = "alone"; // in the pages of a session that is new
                    Result<std::unique_ptr<TextService>> made =
                        TextService::create(model, {.threads = 1, .maxRunning = 1});
                    Heard heard;
                    return made ? aloneOn(**made, std::move(own)) : heard;
                  },
              .maxShared = 100,
              .maxAnswer = 90,
              .topTokens = model.facts().vocabulary,
              .tolerance = std::atof(arguments[3])};
  ServiceStatistics total;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(std::atoi(arguments[2])); ++seed) {
    if (std::string fault = runSchedule(stage, seed, total); !fault.empty()) {
      return fail("seed " + std::to_string(seed) + ": " + fault);
    }
  }
  // One as long as it may be, for its memory.
  Result<std::unique_ptr<TextService>> service =
      TextService::create(model, {.threads = 1, .maxRunning = 1});
  if (!service) {
    return fail(service.status().toString());
  }
  TextRequest longest{.id = 1, .prompt = std::vector<int32_t>(model.facts().positions, 'a')};
  Heard heard = aloneOn(**service, std::move(longest));
  Result<uint64_t> memory = (*service)->memory();
  if (!heard.error.isOk() || !memory) {
    return fail(heard.error.toString());
  }
  std::printf(
      "%llu answers, %llu tokens, %llu preemptions, %llu reused, %llu cancelled, %llu drafted, "
      "%llu accepted, %llu bytes\n",
      static_cast<unsigned long long>(total.finished),
      static_cast<unsigned long long>(total.generatedTokens),
      static_cast<unsigned long long>(total.scheduler.preemptions),
      static_cast<unsigned long long>(total.scheduler.reusedTokens),
      static_cast<unsigned long long>(total.cancelled),
      static_cast<unsigned long long>(total.scheduler.draftTokens),
      static_cast<unsigned long long>(total.scheduler.acceptedTokens),
      static_cast<unsigned long long>(*memory));
  return 0;
}

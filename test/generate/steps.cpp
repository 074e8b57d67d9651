// Runs steps over the pages of an engine, for paged.py: steps.json names the engine, says how many
// pages the session has, by default the most, and has the vectors of each step; the logits of all
// are written one after the other as floats. A step with "draws" (temperature, top-p, min-p, top-k,
// seed and position of each row) fails where its engine draws other tokens than the sampler does.
#include "generate/session/StepSession.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <iostream>

namespace {

using namespace tenon;
using Json = nlohmann::json;

Status compareDraws(generate::StepSession &session, generate::StepBatch &batch, const Json &draws) {
  constexpr double kLogprobError = 1e-5;
  size_t size = static_cast<size_t>(session.facts().vocabulary);
  for (const Json &row : draws) {
    batch.draws.push_back({.temperature = row[0],
                           .topP = row[1],
                           .minP = row[2],
                           .topK = row[3],
                           .seed = row[4],
                           .position = row[5]});
  }
  std::vector<float> again(batch.rows.size() * size);
  std::vector<generate::Draw> beside(batch.rows.size()), alone(batch.rows.size());
  TENON_TRY(session.run(batch, again, beside));
  TENON_TRY(session.run(batch, std::span(again).first(0), alone));
  for (size_t i = 0; i < alone.size(); ++i) {
    const generate::DrawParameters &own = batch.draws[i];
    generate::Sampler sampler({.temperature = own.temperature,
                               .topK = own.topK,
                               .topP = own.topP,
                               .minP = own.minP,
                               .seed = own.seed},
                              {});
    TENON_ASSIGN(generate::Draw expected,
                 sampler.draw(std::span(again).subspan(i * size, size), own.position));
    bool isRight = beside[i].token == expected.token &&
                   std::abs(beside[i].logprob - expected.logprob) < kLogprobError;
    // Without logits rows are padded, whose kernels may round otherwise.
    if (!isRight || alone[i].token < 0) {
      return Status::error(ErrorId::InternalError,
                           strCat("row ", i, " draws ", beside[i].token, " and ", alone[i].token,
                                  ", the sampler ", expected.token));
    }
  }
  return Status::ok();
}

Status runAll(const Json &test, std::ofstream &out) {
  tenon_engine_options options = {};
  options.struct_size = sizeof(options);
  std::string variant = test.value("variant", "");
  options.variant = variant.empty() ? nullptr : variant.c_str();
  TENON_ASSIGN(std::unique_ptr<generate::LanguageModel> model,
               generate::LanguageModel::open(test.at("engine"), options));
  int64_t pages = test.value("pages", model->pages() ? model->pages()->pages : 0);
  TENON_ASSIGN(generate::StepSession session,
               generate::StepSession::create(*model, test.value("threads", 0U), pages));
  for (const Json &step : test.at("steps")) {
    generate::StepBatch batch;
    step.at("tokens").get_to(batch.tokens);
    step.at("positions").get_to(batch.positions);
    step.at("slots").get_to(batch.slots);
    step.at("starts").get_to(batch.starts);
    step.at("lengths").get_to(batch.lengths);
    step.at("pages").get_to(batch.pages);
    step.at("rows").get_to(batch.rows);
    std::vector<float> logits(batch.rows.size() * static_cast<size_t>(session.facts().vocabulary));
    TENON_TRY(session.run(batch, logits));
    if (step.contains("draws")) {
      TENON_TRY(compareDraws(session, batch, step.at("draws")));
    }
    out.write(reinterpret_cast<const char *>(logits.data()),
              static_cast<std::streamsize>(logits.size() * sizeof(float)));
  }
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::cerr << "steps INPUT.json OUTPUT\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  std::ofstream out(argv[2], std::ios::binary);
  Status status = runAll(Json::parse(file), out);
  if (!status.isOk()) {
    std::cerr << status.toString() << "\n";
  }
  return status.isOk() ? 0 : 1;
}

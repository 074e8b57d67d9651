// Runs steps over the pages of an engine, for paged.py: steps.json names the engine, says how many
// pages the session has, by default the most, and has the vectors of each step; the logits of all
// are written one after the other as floats.
#include "generate/session/StepSession.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <iostream>

namespace {

using namespace tenon;
using Json = nlohmann::json;

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

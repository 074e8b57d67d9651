// Random models through the compiler, against the reference interpreter; and the planted faults
// that this must find. See docs/explanation/random-models.md.

#include "runtime/device/cpu/CpuFeatures.h"
#include "test/random/Campaign.h"
#include "test/random/FaultNames.h"
#include "test/random/Operators.h"
#include "tools/tenon/target/Target.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <random>

using namespace tenon;
using namespace tenon::random;

namespace {

struct Flags {
  CampaignOptions campaign;
  std::string target;
  std::string faults;
  std::string peer;
  bool hasSeed = false;
  bool listsOperators = false;
};

void printResult(const Flags &flags, const CampaignResult &result) {
  if (flags.listsOperators) {
    for (const auto &[name, count] : result.operators) {
      fmt::print("{:>8} {}\n", count, name);
    }
  }
  fmt::print("seed {}: {} models, {} the same, {} refused, {} different; {:.1f} ms a model\n",
             flags.campaign.seed, result.models, result.same, result.refused, result.different,
             result.models ? result.seconds * 1000 / static_cast<double>(result.models) : 0.0);
}

/// Each fault must make a difference within the given number of models.
int proveDetection(const Flags &flags) {
  size_t total = 0, caught = 0;
  for (const std::string &name : faultNames()) {
    if (flags.faults != "all" && flags.faults != name) {
      continue;
    }
    CampaignOptions options = flags.campaign;
    options.oracle.fault = name;
    options.stopsAtFirst = true;
    fmt::print("{}: ", name);
    CampaignResult result = runCampaign(options);
    ++total;
    caught += result.different > 0 ? 1 : 0;
    fmt::print("{} {} after {} models, {} of them touched, {:.1f} s\n", name,
               result.different > 0 ? "CAUGHT" : "MISSED", result.models,
               result.models - result.untouched - result.refused, result.seconds);
  }
  fmt::print("{} of {} planted faults caught\n", caught, total);
  return total > 0 && caught * 100 >= total * 98 ? 0 : 1;
}

/// The results of another runtime, which a script has put beside the dumped models.
int checkPeers(const Flags &flags) {
  uint64_t same = 0, refused = 0, different = 0;
  for (uint64_t seed = flags.campaign.seed; seed < flags.campaign.seed + flags.campaign.count;
       ++seed) {
    Model model = makeModel(seed, flags.campaign.hasRelations);
    Outcome outcome = checkPeer(model, seed, flags.peer);
    same += outcome.verdict == Verdict::Same;
    refused += outcome.verdict == Verdict::Refused;
    if (outcome.verdict == Verdict::Different) {
      ++different;
      fmt::print("DIFFERENT seed {} ({}): {}\n", seed, fmt::join(model.operators, " "),
                 outcome.text);
    }
  }
  fmt::print("seed {}: {} the same as the peer's, {} without its answer, {} different\n",
             flags.campaign.seed, same, refused, different);
  return different == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  Flags flags;
  CampaignOptions &campaign = flags.campaign;
  CLI::App app("Compiles and runs random models and compares them with the reference.",
               "random_models");
  CLI::Option *seed =
      app.add_option("--seed", campaign.seed, "Of the first model; a new one by default");
  app.add_option("--count", campaign.count, "Models");
  app.add_option("--seconds", campaign.seconds, "End after so many seconds");
  app.add_option("--jobs", campaign.jobs, "Models at a time");
  app.add_option("--dump", campaign.oracle.dumpFolder,
                 "Gets model, inputs and difference of each model that differs");
  app.add_flag("--dump-all", campaign.oracle.dumpsAll, "Dump models that do not differ too");
  app.add_option("--peer", flags.peer,
                 "Compare the peer.npz beside the dumped models of this folder with the reference, "
                 "and nothing else");
  app.add_option("--target", flags.target,
                 "cpu:avx2 or cuda:sm_90; every CPU level of this machine by default");
  app.add_flag("--relations", campaign.hasRelations,
               "Sizes of inputs that depend on each other in ways that no name says");
  app.add_flag("--operators", flags.listsOperators, "How many nodes of each operator there were");
  app.add_option("--faults", flags.faults,
                 "Plant this fault, or each of them (all), and expect it to be found");
  CLI11_PARSE(app, argc, argv);
  if (!*seed) {
    campaign.seed = std::random_device()() % 1000000000u;
  }
  campaign.oracle.scratchFolder = fmt::format("/dev/shm/tenon-random-{}", getpid());
  for (engine::CpuLevel level :
       {engine::CpuLevel::X86_64_V3, engine::CpuLevel::Avx512, engine::CpuLevel::Avx512VnniBf16}) {
    if (runtime::runsHere(level)) {
      campaign.oracle.levels.push_back(level);
    }
  }
  if (!flags.target.empty()) {
    Result<tool::Targets> targets = tool::parseTargets({flags.target});
    if (!targets) {
      fmt::print(stderr, "random_models: {}\n", targets.status().message());
      return 2;
    }
    campaign.oracle.gpus = targets->gpus;
    if (!targets->levels.empty()) {
      campaign.oracle.levels = targets->levels;
    }
  }
  fmt::print("seed {}\n", campaign.seed);
  if (!flags.peer.empty()) {
    return checkPeers(flags);
  }
  if (!flags.faults.empty()) {
    return proveDetection(flags);
  }
  CampaignResult result = runCampaign(campaign);
  printResult(flags, result);
  return result.different == 0 ? 0 : 1;
}

// Relies on the flags' structs living as long as the command.

#include "tools/tenon/cli/SharedFlags.h"

#include "tools/tenon/cli/Options.h"

#include <CLI/CLI.hpp>

namespace tenon::tool {
namespace {

constexpr uint64_t kMaxInputBatch = (uint64_t(1) << 31) - 1;
constexpr Range<double> kMeans = {-1e6, 1e6};
constexpr Range<double> kDeviations = {1e-6, 1e6};

} // namespace

void declareTargetFlags(CLI::App &command, TargetFlags &flags) {
  command
      .add_option("--target", flags.targets,
                  "cpu for all CPU levels, some of them (cpu:avx2,avx512), the best of this "
                  "machine (cpu:native), or a GPU: cuda (this machine's), cuda:h200, cuda:sm_90; "
                  "separate several with commas; docs/reference/targets.md")
      ->allow_extra_args(false);
  command.add_option("--device-profile", flags.deviceProfile,
                     "A file written by doctor --calibrate; its rates and sizes replace those of "
                     "the built-in table");
  addChoice(command, "--precision", flags.precision, kPrecisions,
            "Keep the types of the model, or store and multiply in fp16 or bf16; fp8: fp16 with "
            "large matmuls in 8-bit floats on GPUs that have them (sm_89 and later)");
  addChoices(
      command, "--allow", flags.allow, kAllowances,
      "Allow an approximation. tf32: fp32 matmuls may round their operands to TF32; tanh-gelu: "
      "GELU of fp16 and bf16 may use its tanh form, with an error of at most 4.8e-4; "
      "int8-activations: matmuls by 4-bit and 8-bit weights may round their activations to 8 bits "
      "on CPUs, one scale for each block");
  command
      .add_option("--state", flags.states,
                  "INPUT=OUTPUT: keep both in one buffer of the session, zero at first and updated "
                  "by each run; a * stands "
                  "for the same text in both")
      ->allow_extra_args(false);
}

void declareOpenFlags(CLI::App &command, OpenRequest &request) {
  command.add_option(
      "--variant,--isa", request.variant,
      "CPU level (avx2, avx512, avx512-vnni-bf16, armv8-a) or GPU architecture (sm_90) to use "
      "instead of the best one; doctor lists them");
  command.add_flag_callback(
      "--no-verify-weights", [&request] { request.verifyWeights = false; },
      "Open an engine without comparing its weights with their hashes: a little faster for large "
      "models, but damage goes unnoticed");
}

void declareThreadsFlag(CLI::App &command, unsigned &threads, const std::string &description) {
  addNumber(
      command, "--threads", kThreads,
      [&threads](uint64_t number) { threads = static_cast<unsigned>(number); }, description);
}

void declareBudgetFlag(CLI::App &command, double &seconds) {
  addSeconds(command, "--budget", {0, kLongestSeconds}, seconds,
             "On a GPU: measure the algorithms of library calls for up to this time (60s, 2m), and "
             "use the fastest from now on");
}

void declareStoreFlag(CLI::App &command, std::string &store) {
  command.add_option(
      "--store", store,
      "Folder of the tuning store; by default one beside the compile cache (docs/guides/tune.md)");
}

void declareUsersFlags(CLI::App &command, UsersRequest &request) {
  addNumber(
      command, "--users", {1, 1'000'000}, [&request](uint64_t value) { request.users = value; },
      "Of a language model: what `tenon serve` takes of memory for this many users at once");
  addNumber(
      command, "--tokens", {1, 1'000'000'000},
      [&request](uint64_t value) { request.tokens = value; },
      "With --users: tokens of each, prompt and answer together; by default all that the engine "
      "allows");
  addNumber(
      command, "--max-memory", {1, 1 << 24},
      [&request](uint64_t value) { request.maxMemory = value << 20; },
      "With --users: the memory in MiB that they may take; by default what is free");
  command.add_option("--draft-model", request.draftModel,
                     "With --users: the engine of a smaller language model, which guesses how "
                     "answers go on");
}

void declareStrictFlag(CLI::App &command, bool &strict) {
  command.add_flag("--strict", strict,
                   "Fail if a node takes fewer sizes than the model or --shape declares");
}

void declareSeededFlags(CLI::App &command, InputFlags &flags) {
  command
      .add_option("--shape", flags.shapes, "Dimensions of an input: name:1x128 (repeat for more)")
      ->allow_extra_args(false);
  addNumber(
      command, "--batch", {1, kMaxInputBatch},
      [&flags](uint64_t number) { flags.batch = static_cast<int64_t>(number); },
      "Size of dimension 0 of all inputs");
  command
      .add_option(
          "--fill", flags.fills,
          "Range of a seeded input: name:0..30521; by default integers are 0 or 1 (or as the "
          "model says), floats in [-1, 1)")
      ->allow_extra_args(false);
  addNumber(
      command, "--seed", {0, UINT64_MAX}, [&flags](uint64_t number) { flags.seed = number; },
      "Seed of the inputs");
}

void declareSessionFlag(CLI::App &command, InputFlags &flags) {
  command
      .add_option("--session", flags.session,
                  "Value of a symbol that sizes the state of the session: pages=64 (repeat for "
                  "more)")
      ->allow_extra_args(false);
}

void declareFileFlags(CLI::App &command, InputFlags &flags) {
  command
      .add_option(
          "--inputs", flags.files,
          "x.npz, [NAME=]x.npy or [NAME=]picture.png (repeat for more); by default seeded inputs")
      ->allow_extra_args(false);
  addNumbers(command, "--mean", kMeans, flags.mean,
             "Pictures: mean of each channel, in units of [0, 1]");
  addNumbers(command, "--std", kDeviations, flags.deviation,
             "Pictures: standard deviation of each channel");
  addChoice(command, "--layout", flags.layout, {"nchw", "nhwc"},
            "Pictures: order of the dimensions of the input");
  command.add_flag("--resize", flags.resize, "Pictures: stretch to the size of the input");
}

} // namespace tenon::tool

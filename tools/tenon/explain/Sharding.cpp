// Words and figures of a prediction. Bytes are decimal, as vendors count the memory of GPUs.

#include "tools/tenon/explain/Sharding.h"

#include "tools/tenon/print/ExplainParts.h"
#include "tools/tenon/print/JsonFields.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::tool {
namespace {

/// Less than this is not worth a GPU.
constexpr double kWorthIt = 1.1;

std::string bytesText(double bytes) {
  return bytes >= 1e8   ? fmt::format("{:.1f} GB", bytes / 1e9)
         : bytes >= 1e6 ? fmt::format("{:.1f} MB", bytes / 1e6)
         : bytes >= 1e3 ? fmt::format("{:.1f} KB", bytes / 1e3)
                        : fmt::format("{:.0f} B", bytes);
}

std::string durationText(double seconds) {
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                         : fmt::format("{:.1f} us", seconds * 1e6);
}

Json runJson(const ShardingRun &run) {
  Json json = {{"of", run.name},
               {"us", run.seconds * 1e6},
               {"one_us", run.oneSeconds * 1e6},
               {"speedup", run.speedup()},
               {"messages", Json::array()}};
  for (const ShardingMessages &each : run.messages) {
    json["messages"].push_back({{"kind", each.kind},
                                {"count", each.count},
                                {"bytes", each.bytes},
                                {"us", each.seconds * 1e6}});
  }
  return json;
}

/// Of the messages among the GPUs of a layer, the part of a run from which links count as slow.
constexpr double kSlowLinks = 0.5;

/// What stages are good for, in words; empty where it is nothing.
std::string stagesPay(const ShardingRequest &request, const ShardingReport &report,
                      const ShardingOption &option) {
  double cache = static_cast<double>(option.cacheBytesOfToken * request.load);
  double whole = static_cast<double>(option.weightBytes) + cache;
  if (report.memoryBytes > 0 && whole > report.memoryBytes) {
    return fmt::format("weights and caches of {} do not fit in one GPU's {}", bytesText(whole),
                       bytesText(report.memoryBytes));
  }
  double sending = 0;
  for (const ShardingMessages &each : option.runs.front().messages) {
    sending += each.seconds;
  }
  return option.ranks > 1 && sending > kSlowLinks * option.runs.front().seconds
             ? "links are slow: messages among the GPUs of a layer take most of a run"
             : "";
}

Json stageJson(const ShardingRequest &request, const ShardingStage &stage) {
  return {{"first", stage.first},
          {"last", stage.last},
          {"weight_bytes", stage.weightBytes},
          {"cache_bytes_of_token", stage.cacheBytesOfToken},
          {"cache_bytes", stage.cacheBytesOfToken * request.load},
          {"received_bytes", stage.receivedBytes},
          {"us", stage.seconds * 1e6},
          {"receive_us", stage.receiving * 1e6}};
}

Json optionJson(const ShardingRequest &request, const ShardingReport &report,
                const ShardingOption &option) {
  Json stages = Json::array();
  int64_t weightBytes = option.weightBytes, cacheBytes = option.cacheBytesOfToken;
  if (!option.stages.empty()) {
    weightBytes = cacheBytes = 0;
  }
  for (const ShardingStage &stage : option.stages) {
    stages.push_back(stageJson(request, stage));
    weightBytes = std::max(weightBytes, stage.weightBytes);
    cacheBytes = std::max(cacheBytes, stage.cacheBytesOfToken);
  }
  Json json = {{"gpus", option.ranks * request.stages},
               {"tp", option.ranks},
               {"weight_bytes", weightBytes},
               {"cache_bytes_of_token", cacheBytes},
               {"cache_bytes", cacheBytes * request.load},
               {"activation_bytes", option.activationBytes},
               {"exhaustive", option.isExhaustive},
               {"without_rule", option.withoutRule},
               {"runs", Json::array()},
               {"matrices", Json::array()}};
  for (const ShardingRun &run : option.runs) {
    json["runs"].push_back(runJson(run));
  }
  for (const ShardedMatrix &each : option.matrices) {
    json["matrices"].push_back({{"name", each.name},
                                {"sizes", each.sizes},
                                {"count", each.count},
                                {"cut", each.cut},
                                {"whole_us", each.wholeSeconds * 1e6},
                                {"us", each.cutSeconds * 1e6},
                                {"message_us", each.messageSeconds * 1e6}});
  }
  if (!option.stages.empty()) {
    json["stages"] = std::move(stages);
    json["stages_pay"] = stagesPay(request, report, option);
  }
  json["worth_it"] = option.ranks == 1 || option.runs.front().speedup() >= kWorthIt;
  if (option.difference) {
    json["difference"] = *option.difference;
    json["differs"] = option.differs;
  }
  return json;
}

std::string messagesText(const Json &run) {
  std::string text;
  for (const Json &each : listAt(run, "messages")) {
    text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", numberAt(each, "count"),
                        textAt(each, "kind"), formatBytes(each.value("bytes", uint64_t{0})));
  }
  return text.empty() ? "none" : text;
}

std::string matricesText(const Json &option) {
  std::string text =
      fmt::format("\nTP {}: cuts, and the time of one matrix for {}\n", numberAt(option, "tp"),
                  textAt(listAt(option, "runs").front(), "of"));
  text += fmt::format("  {:<36} {:<20} {:>5}  {:<10} {:>10} {:>10} {:>10}\n", "matrix", "sizes",
                      "count", "cut", "whole", "cut", "message");
  for (const Json &each : listAt(option, "matrices")) {
    text += fmt::format("  {:<36} {:<20} {:>5}  {:<10} {:>10} {:>10} {:>10}\n",
                        view::visible(textAt(each, "name")), textAt(each, "sizes"),
                        numberAt(each, "count"), textAt(each, "cut"),
                        durationText(each.value("whole_us", 0.0) * 1e-6),
                        durationText(each.value("us", 0.0) * 1e-6),
                        durationText(each.value("message_us", 0.0) * 1e-6));
  }
  return text;
}

std::string optionText(const Json &option, const Json &whole) {
  std::string text = fmt::format(
      "\nTP {} ({} GPU{}): weights {}, cache {} a token and {} at {} tokens, activations about "
      "{}\n",
      numberAt(option, "tp"), numberAt(option, "gpus"), numberAt(option, "gpus") == 1 ? "" : "s",
      bytesText(option.value("weight_bytes", 0.0)),
      bytesText(option.value("cache_bytes_of_token", 0.0)),
      bytesText(option.value("cache_bytes", 0.0)), numberAt(whole, "load"),
      bytesText(option.value("activation_bytes", 0.0)));
  for (const Json &run : listAt(option, "runs")) {
    text += fmt::format("  {}: {}", textAt(run, "of"), durationText(run.value("us", 0.0) * 1e-6));
    text += numberAt(option, "tp") == 1 ? "\n"
                                        : fmt::format(", {:.2f} x; messages: {}\n",
                                                      run.value("speedup", 1.0), messagesText(run));
  }
  if (Json without = listAt(option, "without_rule"); !without.empty()) {
    text +=
        fmt::format("  computed whole on each GPU, for want of a rule: {}\n", joinTexts(without));
  }
  text += option.value("exhaustive", true) ? "" : "  the search gave up some combinations\n";
  text += option.value("worth_it", true) ? "" : "  not worth it: one GPU is about as fast\n";
  int64_t number = 0;
  for (const Json &stage : listAt(option, "stages")) {
    text += fmt::format(
        "  stage {}: {} to {}, weights {}, cache {} a token, {}, receives {}\n", number++,
        view::visible(textAt(stage, "first")), view::visible(textAt(stage, "last")),
        bytesText(stage.value("weight_bytes", 0.0)),
        bytesText(stage.value("cache_bytes_of_token", 0.0)),
        durationText(stage.value("us", 0.0) * 1e-6), bytesText(stage.value("received_bytes", 0.0)));
  }
  if (option.contains("stages")) {
    std::string why = textAt(option, "stages_pay");
    text += why.empty() ? "  stages do not pay: one stage fits, and links are fast enough\n"
                        : fmt::format("  stages pay: {}\n", why);
  }
  if (option.contains("difference")) {
    double difference = option.value("difference", 0.0);
    text +=
        fmt::format("  checked: {} ranks on the reference differ from one by {:.1e} at most, in "
                    "'{}'\n",
                    numberAt(option, "tp"), difference, view::visible(textAt(option, "differs")));
  }
  return text;
}

} // namespace

Json shardingJson(const ShardingRequest &request, const ShardingReport &report) {
  Json json = {{"model", request.model},        {"target", report.target},
               {"precision", report.precision}, {"messages", report.messages},
               {"load", request.load},          {"context", request.context},
               {"options", Json::array()}};
  for (const ShardingOption &option : report.options) {
    json["options"].push_back(optionJson(request, report, option));
  }
  if (request.stages > 1) {
    double others = static_cast<double>(request.stages - 1);
    json["pipeline"] = {{"stages", request.stages},
                        {"micro_batches", request.microBatches},
                        {"bubble", others / (static_cast<double>(request.microBatches) + others)}};
  }
  return json;
}

std::string shardingText(const Json &json, bool all) {
  std::string text = fmt::format("{}: predicted for {} in {}\nTimes of "
                                 "messages: {}.\n",
                                 view::visible(textAt(json, "model")), textAt(json, "target"),
                                 textAt(json, "precision"), textAt(json, "messages"));
  Json shown;
  for (const Json &option : listAt(json, "options")) {
    text += optionText(option, json);
    shown = numberAt(shown, "tp") <= 1 ? option : shown;
    if (all && numberAt(option, "tp") > 1) {
      text += matricesText(option);
    }
  }
  if (Json pipeline = fieldAt(json, "pipeline"); pipeline.is_object()) {
    text += fmt::format("\nPP {}: with {} micro-batches a GPU waits {:.0f} % of the time, and a "
                        "token is no faster\n",
                        numberAt(pipeline, "stages"), numberAt(pipeline, "micro_batches"),
                        pipeline.value("bubble", 0.0) * 100);
  }
  if (!all && numberAt(shown, "tp") > 1) {
    text += matricesText(shown);
  }
  return text.substr(0, text.size() - 1);
}

} // namespace tenon::tool

// config.pbtxt and files of tokens: what is read, what is refused with its line, and that no text
// ends the parser.

#include "server/protocol/ModelConfig.h"
#include "server/protocol/Tokens.h"

#include <gtest/gtest.h>

#include <random>

namespace tenon::server {
namespace {

constexpr std::string_view kConfig = R"(# a comment
name: "m"  backend: 'tenon'
max_batch_size: 8
input [ { name: "a" data_type: TYPE_FP32 dims: [ 3, -1 ] },
        { name: "b" "c", data_type: TYPE_INT64; dims: 2 } ]
output < name: "y" data_type: TYPE_FP32 dims: [] >
version_policy: { specific { versions: [1, 3] } }
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 1 ] } ]
parameters { key: "k" value { string_value: "v\n" } }
parameters { key: "pad" value { string_value: "a: 0, b:-1.5" } }
parameters { key: "buckets" value { string_value: "4,8 , 16" } }
parameters { key: "worker" value { string_value: "own" } }
dynamic_batching {
  preferred_batch_size: [ 8, 4 ] max_queue_delay_microseconds: 100
  priority_levels: 2 default_priority_level: 2
  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 7 max_queue_size: 3 }
  priority_queue_policy { key: 1 value { allow_timeout_override: true } }
}
)";

TEST(ModelConfig, Reads) {
  Result<ModelConfig> config = parseModelConfig(kConfig, "f", false);
  ASSERT_TRUE(config.isOk()) << config.status().toString();
  EXPECT_EQ(config->name, "m");
  EXPECT_EQ(config->maxBatchSize, 8u);
  ASSERT_EQ(config->inputs.size(), 2u);
  EXPECT_EQ(config->inputs[0].dims, (std::vector<int64_t>{3, -1}));
  EXPECT_EQ(config->inputs[1].name, "bc");
  EXPECT_EQ(config->inputs[1].line, 5u);
  EXPECT_EQ(config->inputs[1].dtype, DType::I64);
  EXPECT_TRUE(config->outputs[0].dims.empty());
  EXPECT_EQ(config->versions.specific, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(config->instances, 2u);
  EXPECT_EQ(config->placement.kind, Placement::Kind::Gpu);
  EXPECT_EQ(config->placement.gpus, std::vector<uint64_t>{1});
  EXPECT_TRUE(config->hasOwnWorker);
  EXPECT_EQ(config->parameters[0].second, "v\n");
  EXPECT_EQ(config->pads, (std::vector<std::pair<std::string, double>>{{"a", 0}, {"b", -1.5}}));
  EXPECT_EQ(config->buckets, (std::vector<int64_t>{4, 8, 16}));
  ASSERT_TRUE(config->batching);
  EXPECT_EQ(config->batching->preferred, (std::vector<uint64_t>{4, 8}));
  EXPECT_EQ(config->batching->delayMicroseconds, 100u);
  EXPECT_FALSE(config->batching->policyOf(2).rejectsLate);
  EXPECT_EQ(config->batching->policyOf(2).maxQueued, 3u);
  EXPECT_TRUE(config->batching->policyOf(1).rejectsLate);
  EXPECT_TRUE(config->batching->policyOf(1).allowsOwnTimeout);
}

TEST(ModelConfig, RefusesWithLine) {
  for (std::string_view text :
       {"\nmax_bath_size: 8",
        "\nmax_batch_size: 8.5",
        "\nmax_batch_size: -1",
        "\nmax_batch_size: 99999999999999999999",
        "\nname: m",
        "\ndefault_model_filename: \"../m.tenon\"",
        "\nname: \"m",
        "\nname \"m\"",
        "\ninput { name: \"a\" }",
        "\ninput { name: \"a\" data_type: TYPE_STRING }",
        "\ninput { name: \"a\" data_type: TYPE_FP32 dims: -2 }",
        "\ninput: 3",
        "\nname: \"\\q\"",
        "\ninput [ {} ",
        "\n:",
        "\ninstance_group { count: 1000 }",
        "\ninstance_group { kind: KIND_CPU gpus: 0 }",
        "\ninstance_group { gpus: [0, 1, 0] }",
        "\ninstance_group { kind: KIND_MODEL }",
        "instance_group { }\ninstance_group { }",
        "\nparameters { key: \"worker\" value { string_value: \"mine\" } }",
        "\ndynamic_batching: 3",
        "\ndynamic_batching { max_queue_delay_microseconds: -1 }",
        "max_batch_size: 0\ndynamic_batching {}",
        "max_batch_size: 4\ndynamic_batching { preferred_batch_size: 5 }",
        "\ndynamic_batching { priority_levels: 2 }",
        "\ndynamic_batching { priority_queue_policy { key: 1 value { } } }",
        "\ndynamic_batching { default_queue_policy { timeout_action: WAIT } }",
        "\nparameters { key: \"batch_tolerance\" value { string_value: \"much\" } }",
        "\nparameters { key: \"answers_may_depend_on_other_requests\" value { string_value: "
        "\"yes\" } }",
        "\nparameters { key: \"pad\" value { string_value: \"ids\" } }",
        "\nparameters { key: \"buckets\" value { string_value: \"8, 4\" } }"}) {
    Result<ModelConfig> config = parseModelConfig(text, "f", false);
    ASSERT_FALSE(config.isOk()) << text;
    EXPECT_EQ(config.status().id(), ErrorId::BadModelConfig);
    EXPECT_TRUE(config.status().message().starts_with("f:2: ")) << config.status().toString();
  }
  EXPECT_EQ(parseModelConfig("new_field { a: 1 }", "f", true)->notes.size(), 1u);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) {
    deep += "a {";
  }
  EXPECT_FALSE(parseModelConfig(deep, "f", true).isOk());
}

TEST(ModelConfig, AnyTextEnds) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (size_t length = 0; length < kConfig.size(); ++length) {
    (void)parseModelConfig(kConfig.substr(0, length), "f", true).isOk();
    std::string changed(kConfig);
    changed[length] = static_cast<char>(random());
    (void)parseModelConfig(changed, "f", true).isOk();
  }
}

TEST(Tokens, RolesAndRights) {
  Result<Tokens> tokens =
      Tokens::parse("# c\n0123456789abcdef infer,read\n\nfedcba9876543210\tadmin\r\n", "f");
  ASSERT_TRUE(tokens.isOk()) << tokens.status().toString();
  EXPECT_TRUE(tokens->check("Bearer 0123456789abcdef", Role::Infer).isOk());
  EXPECT_EQ(tokens->check("Bearer 0123456789abcdef", Role::Admin).id(), ErrorId::NotAuthorized);
  EXPECT_TRUE(tokens->check("Bearer fedcba9876543210", Role::Read).isOk());
  EXPECT_TRUE(tokens->check("bEARER  fedcba9876543210", Role::Read).isOk());
  EXPECT_TRUE(tokens->check("", Role::Open).isOk());
  for (std::string_view wrong :
       {"", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0",
        "Bearer0123456789abcdef", "Basic 0123456789abcdef", "0123456789abcdef",
        "Bearer 0123456789abcdeg"}) {
    EXPECT_EQ(tokens->check(wrong, Role::Read).id(), ErrorId::NotAuthenticated) << wrong;
  }
  for (std::string_view bad : {"", "# only\n", "short read\n", "0123456789abcdef\n",
                               "0123456789abcdef owner\n", "0123456789abcdef \n"}) {
    EXPECT_EQ(Tokens::parse(bad, "f").status().id(), ErrorId::BadTokenFile) << bad;
  }
}

} // namespace
} // namespace tenon::server

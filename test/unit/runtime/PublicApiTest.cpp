// The public interface as its users get it: the shared library's C functions, the documented
// examples compiled and run, the library's size and what it links.

#include "engine/Plan.h"
#include "support/DType.h"
#include "tenon/tenon.hpp"
#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <thread>

namespace tenon {
namespace {

struct Finished {
  int code;
  std::string text;
};

/// Runs a shell command and gives its exit code and its output, stderr included.
Finished runCommand(const std::string &command) {
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  Finished finished = {-1, ""};
  std::array<char, 4096> chunk;
  while (size_t count = fread(chunk.data(), 1, chunk.size(), pipe)) {
    finished.text.append(chunk.data(), count);
  }
  finished.code = WEXITSTATUS(pclose(pipe));
  return finished;
}

std::string writeStatic() {
  test::TestEngine engine(test::staticPlan(), test::productWeights());
  return engine.writeTemporary("public-static.tenon");
}

std::string writeDynamic() {
  test::TestEngine engine(test::dynamicPlan(), test::productWeights());
  return engine.writeTemporary("public-dynamic.tenon");
}

TEST(PublicApi, ExamplesRun) {
  std::vector<float> input(32);
  input[0] = 1, input[1] = 2, input[2] = 3;
  std::vector<float> expected = test::expectedProduct(input);
  std::array<char, 100> line;
  snprintf(line.data(), line.size(), "%g %g %g\n", expected[0], expected[1], expected[2]);
  for (const char *example : {TENON_EXAMPLE_C, TENON_EXAMPLE_CPP}) {
    Finished good = runCommand(std::string(example) + " " + writeStatic());
    EXPECT_EQ(0, good.code) << good.text;
    EXPECT_EQ(line.data(), good.text);
    Finished bad = runCommand(std::string(example) + " /nowhere.tenon");
    EXPECT_EQ(TENON_USAGE, bad.code);
    EXPECT_EQ(0u, bad.text.find("TN0101: ")) << bad.text;
  }
}

/// The lines of `file` after the first, each behind `prefix`.
std::string asComment(const std::string &file, const std::string &prefix) {
  std::ifstream stream(std::string(TENON_SOURCE_DIR) + "/" + file);
  std::string line;
  std::string text;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    std::string commented = prefix + line;
    text += commented.substr(0, commented.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string sourceOf(const std::string &file) {
  std::ifstream stream(std::string(TENON_SOURCE_DIR) + "/" + file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(PublicApi, HeadersShowTheExamples) {
  std::string c = asComment("examples/c_api.c", " *     ");
  EXPECT_GT(c.size(), 500u);
  EXPECT_NE(std::string::npos, sourceOf("include/tenon/tenon.h").find(c));
  std::string cpp = asComment("examples/cpp_api.cpp", "//     ");
  EXPECT_GT(cpp.size(), 500u);
  EXPECT_NE(std::string::npos, sourceOf("include/tenon/tenon.hpp").find(cpp));
}

TEST(PublicApi, DescribesPorts) {
  Engine engine(writeDynamic());
  EXPECT_EQ("x86-64-v3", engine.variant());
  std::vector<tenon_port_info> inputs = engine.inputs();
  ASSERT_EQ(1u, inputs.size());
  EXPECT_STREQ("x", inputs[0].name);
  EXPECT_EQ(TENON_F32, inputs[0].dtype);
  ASSERT_EQ(2u, inputs[0].rank);
  EXPECT_EQ(1, inputs[0].min_dims[0]);
  EXPECT_EQ(64, inputs[0].max_dims[0]);
  EXPECT_EQ(8, inputs[0].min_dims[1]);
  EXPECT_EQ(8, inputs[0].max_dims[1]);
  EXPECT_STREQ("y", engine.outputs()[0].name);
  tenon_port_info info = detail::sized<tenon_port_info>();
  tenon_status *status = tenon_engine_input(engine.get(), 1, &info);
  EXPECT_STREQ("TN0105", tenon_status_id(status));
  tenon_status_destroy(status);
}

TEST(PublicApi, GivesRecords) {
  Engine engine(writeDynamic());
  const char *json = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(nullptr, tenon_engine_record(engine.get(), "memory", &json, &bytes));
  EXPECT_EQ("{\"arena\": 1}", std::string(json, bytes));
  tenon_status *status = tenon_engine_record(engine.get(), "fusion", &json, &bytes);
  EXPECT_STREQ("TN0520", tenon_status_id(status));
  tenon_status_destroy(status);
}

TEST(PublicApi, RunsAndKeepsOutputs) {
  Engine engine(writeDynamic());
  tenon_session_options twoThreads = detail::sized<tenon_session_options>();
  twoThreads.threads = 2;
  Session session(engine, twoThreads);
  EXPECT_THROW(session.outputDims(0), Error) << "nothing is prepared";
  std::vector<float> data(16 * 8, 1.0f);
  session.prepare({{nullptr, {16, 8}}});
  EXPECT_EQ((std::vector<int64_t>{16, 3}), session.outputDims(0));
  session.run({{data.data(), {16, 8}}}, {Output()});
  const float *result = static_cast<const float *>(session.outputData(0));
  EXPECT_EQ(test::expectedProduct(data), std::vector<float>(result, result + 48));
}

/// Runs the product `calls` times in each of eight threads, thread i in session i modulo their
/// number, until each call is through; gives how many were told that the session is in use.
int runInThreads(std::vector<Session> &sessions, int calls) {
  std::atomic<int> told = 0, wrong = 0;
  std::vector<std::thread> users;
  for (int user = 0; user < 8; ++user) {
    users.emplace_back([&, user] {
      Session &session = sessions[user % sessions.size()];
      int64_t batch = 1 + user;
      std::vector<float> data(batch * 8, static_cast<float>(user)), result(batch * 3);
      std::vector<float> expected = test::expectedProduct(data);
      for (int done = 0; done < calls;) {
        std::fill(result.begin(), result.end(), -1.0f);
        try {
          session.run({{data.data(), {batch, 8}}}, {{result.data(), result.size() * 4}});
          wrong += result != expected;
          ++done;
        } catch (const Error &error) {
          told += error.id() == "TN0614";
          wrong += error.id() != "TN0614";
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread &user : users) {
    user.join();
  }
  EXPECT_EQ(0, wrong);
  return told;
}

TEST(PublicApi, ThreadsShareASessionOrHaveTheirOwn) {
  Engine engine(writeDynamic());
  std::vector<Session> one, many;
  one.emplace_back(engine);
  int told = runInThreads(one, 12500);
  EXPECT_TRUE(told > 0 || std::thread::hardware_concurrency() < 2) << "no two calls met";
  for (int i = 0; i < 8; ++i) {
    many.emplace_back(engine);
  }
  EXPECT_EQ(0, runInThreads(many, 12500));
}

/// A float tensor on the host with the dims of `dims`.
tenon_tensor hostTensor(std::vector<float> &data, std::vector<int64_t> &dims) {
  return {data.data(), 1, 0, static_cast<int32_t>(dims.size()), 2, 32, 1, dims.data(), nullptr, 0};
}

TEST(PublicApi, TakesDlpackTensors) {
  Engine engine(writeDynamic());
  EXPECT_EQ(-1, engine.gpu());
  tenon_session_options oneThread = detail::sized<tenon_session_options>();
  oneThread.threads = 1;
  Session session(engine, oneThread);
  std::vector<float> data(4 + 16 * 8, 1.0f);
  std::vector<float> result(16 * 3);
  std::vector<int64_t> inputDims = {16, 8};
  std::vector<int64_t> outputDims = {16, 3};
  std::vector<int64_t> strides = {8, 1};
  tenon_tensor input = hostTensor(data, inputDims);
  input.byte_offset = 16;
  input.strides = strides.data();
  tenon_tensor output = hostTensor(result, outputDims);
  session.run({&input}, {&output});
  EXPECT_EQ(test::expectedProduct(std::vector<float>(16 * 8, 1.0f)), result);
  session.run({&input}, std::vector<const tenon_tensor *>{nullptr});
  EXPECT_EQ(0, std::memcmp(session.outputData(0), result.data(), result.size() * 4));
  EXPECT_EQ(2u, session.facts().kernels);
  EXPECT_EQ(16u * 8 * 4, session.memory().arena);
  // Each fault in a tensor of its own.
  auto refuse = [&](const char *id, const char *text, auto change, bool isOutput = false) {
    tenon_tensor in = input;
    tenon_tensor out = output;
    change(isOutput ? out : in);
    try {
      session.run({&in}, {&out});
      ADD_FAILURE() << text;
    } catch (const Error &error) {
      EXPECT_EQ(id, error.id());
      EXPECT_NE(std::string::npos, std::string(error.what()).find(text)) << error.what();
    }
  };
  refuse("TN0108", "is of type f32, but the tensor has type code 0",
         [](auto &t) { t.type_code = 0; });
  refuse("TN0108", "with 64 bits", [](auto &t) { t.type_bits = 64; });
  refuse("TN0108", "output 'y'", [](auto &t) { t.type_lanes = 4; }, true);
  refuse("TN0605", "on device 2:0, but the engine is on the CPU",
         [](auto &t) { t.device_type = 2; });
  refuse("TN0605", "its dims are missing", [](auto &t) { t.dims = nullptr; });
  refuse("TN0602", "rank 1", [](auto &t) { t.rank = 1, t.strides = nullptr; });
  refuse("TN0605", "its pointer is null", [](auto &t) { t.data = nullptr; });
  std::vector<int64_t> columnMajor = {1, 16};
  refuse("TN0605", "strides", [&](auto &t) { t.strides = columnMajor.data(); });
  std::vector<int64_t> wrongDims = {3, 16};
  refuse(
      "TN0605", "has dims 16x3, but the tensor has 3x16",
      [&](auto &t) { t.dims = wrongDims.data(); }, true);
  tenon_status *status = tenon_session_run_tensors(session.get(), nullptr, 0, nullptr, 0, nullptr);
  EXPECT_STREQ("TN0601", tenon_status_id(status));
  tenon_status_destroy(status);
}

TEST(PublicApi, ReportsErrors) {
  Engine engine(writeDynamic());
  Session session(engine);
  try {
    session.prepare({{nullptr, {65, 8}}});
    FAIL() << "65 is out of range";
  } catch (const Error &error) {
    EXPECT_EQ("TN0603", error.id());
    EXPECT_EQ(TENON_USAGE, error.code());
    EXPECT_EQ(0u, std::string(error.what()).find("TN0603: input 'x' has 65 in dim 0 ('batch')"));
  }
  EXPECT_STREQ("ok", tenon_status_text(nullptr));
  EXPECT_EQ(TENON_OK, tenon_status_code(nullptr));
  tenon_status_destroy(nullptr);
  tenon_session *many = nullptr;
  tenon_session_options tooMany = detail::sized<tenon_session_options>();
  tooMany.threads = 1000000;
  tenon_status *refused = tenon_session_create(engine.get(), &tooMany, &many);
  EXPECT_STREQ("TN0105", tenon_status_id(refused));
  tenon_status_destroy(refused);
}

bool isRefused(tenon_status *status) {
  bool isRight = std::string_view("TN0105") == tenon_status_id(status);
  tenon_status_destroy(status);
  return isRight;
}

/// Options as a caller of a later release has them: one member more.
struct LaterOptions {
  tenon_session_options known;
  uint64_t added;
};

TEST(PublicApi, TakesStructsOfOtherReleases) {
  Engine engine(writeDynamic());
  tenon_session *session = nullptr;
  LaterOptions later = {};
  later.known.struct_size = sizeof(later);
  EXPECT_EQ(nullptr, tenon_session_create(engine.get(), &later.known, &session));
  tenon_session_destroy(session);
  later.added = 1;
  tenon_status *refused = tenon_session_create(engine.get(), &later.known, &session);
  EXPECT_STREQ("TN0105", tenon_status_id(refused));
  EXPECT_STRNE("", tenon_status_hint(refused));
  tenon_status_destroy(refused);
  later.known.struct_size = offsetof(tenon_session_options, threads);
  later.known.threads = 1000000; // beyond the size, and so not read
  EXPECT_EQ(nullptr, tenon_session_create(engine.get(), &later.known, &session));
  tenon_session_destroy(session);
}

TEST(PublicApi, FillsNoMoreThanTheCallersStruct) {
  Engine engine(writeDynamic());
  tenon_port_info info = {};
  info.struct_size = offsetof(tenon_port_info, rank);
  info.rank = 77;
  EXPECT_EQ(nullptr, tenon_engine_input(engine.get(), 0, &info));
  EXPECT_STREQ("x", info.name);
  EXPECT_EQ(77u, info.rank);
  EXPECT_EQ(offsetof(tenon_port_info, rank), info.struct_size);
}

TEST(PublicApi, TakesValuesForTheSession) {
  test::PlanBuilder builder;
  engine::ExprId pages = builder.sessionSymbol("pages", 2, 4096, 64);
  uint32_t x = builder.input("x", DType::F32, {builder.size(4)});
  builder.stateOf(builder.plan.exprs.mul(pages, builder.size(128)));
  builder.launch(test::Nothing, {x}, {}, builder.size(1));
  builder.finish();
  test::TestEngine file(builder.plan, {});
  Engine engine(file.writeTemporary("session-values.tenon"));
  auto bytesWith = [&](std::vector<tenon_session_value> values) {
    tenon_session_options options = detail::sized<tenon_session_options>();
    options.values = values.data();
    options.value_count = values.size();
    tenon_session *session = nullptr;
    tenon_memory_use use = detail::sized<tenon_memory_use>();
    EXPECT_EQ(nullptr, tenon_session_create(engine.get(), &options, &session));
    EXPECT_EQ(nullptr, tenon_session_memory(session, &use));
    tenon_session_destroy(session);
    return use.state;
  };
  EXPECT_EQ(64u * 128, bytesWith({}));
  EXPECT_EQ(2u * 128, bytesWith({{"pages", 2}}));
  EXPECT_EQ(4096u * 128, bytesWith({{"pages", 4096}}));
  EXPECT_EQ(3u * 128, bytesWith({{"pages", 2}, {"pages", 3}}));
  tenon_session *session = nullptr;
  const tenon_session_value bad[] = {{"rows", 2}, {"pages", 1}, {"pages", 4097}, {nullptr, 2}};
  for (const tenon_session_value &each : bad) {
    tenon_session_options options = detail::sized<tenon_session_options>();
    options.values = &each;
    options.value_count = 1;
    tenon_status *status = tenon_session_create(engine.get(), &options, &session);
    EXPECT_STREQ("TN0105", tenon_status_id(status));
    tenon_status_destroy(status);
  }
  tenon_session_options options = detail::sized<tenon_session_options>();
  options.value_count = 1;
  EXPECT_TRUE(isRefused(tenon_session_create(engine.get(), &options, &session)));
  EXPECT_EQ(nullptr, session);
}

TEST(PublicApi, RefusesStructsWithoutSize) {
  Engine engine(writeDynamic());
  tenon_port_info info = {};
  EXPECT_TRUE(isRefused(tenon_engine_input(engine.get(), 0, &info)));
  tenon_session_options options = {};
  tenon_session *session = nullptr;
  EXPECT_TRUE(isRefused(tenon_session_create(engine.get(), &options, &session)));
}

/// A function of the header called with nulls in each place where it takes a handle or gives a
/// result; true when the answer is the documented one.
struct NullRow {
  const char *function;
  bool (*isAnswered)(tenon_engine *, tenon_session *);
};

const NullRow kNullRows[] = {
    {"tenon_status_code", [](auto, auto) { return tenon_status_code(nullptr) == TENON_OK; }},
    {"tenon_status_id", [](auto, auto) { return !*tenon_status_id(nullptr); }},
    {"tenon_status_hint", [](auto, auto) { return !*tenon_status_hint(nullptr); }},
    {"tenon_status_text",
     [](auto, auto) { return std::string_view("ok") == tenon_status_text(nullptr); }},
    {"tenon_status_destroy", [](auto, auto) { return tenon_status_destroy(nullptr), true; }},
    {"tenon_engine_open",
     [](auto, auto) {
       tenon_engine *engine = nullptr;
       return isRefused(tenon_engine_open(nullptr, nullptr, &engine)) &&
              isRefused(tenon_engine_open("x", nullptr, nullptr));
     }},
    {"tenon_engine_open_memory",
     [](auto, auto) {
       tenon_engine *engine = nullptr;
       return isRefused(tenon_engine_open_memory(nullptr, 0, nullptr, &engine)) &&
              isRefused(tenon_engine_open_memory(nullptr, 9, nullptr, &engine)) &&
              isRefused(tenon_engine_open_memory("x", 1, nullptr, nullptr));
     }},
    {"tenon_engine_destroy", [](auto, auto) { return tenon_engine_destroy(nullptr), true; }},
    {"tenon_engine_variant", [](auto, auto) { return !*tenon_engine_variant(nullptr); }},
    {"tenon_engine_gpu", [](auto, auto) { return tenon_engine_gpu(nullptr) == -1; }},
    {"tenon_engine_input_count", [](auto, auto) { return tenon_engine_input_count(nullptr) == 0; }},
    {"tenon_engine_output_count",
     [](auto, auto) { return tenon_engine_output_count(nullptr) == 0; }},
    {"tenon_engine_input",
     [](tenon_engine *engine, auto) {
       tenon_port_info info = detail::sized<tenon_port_info>();
       return isRefused(tenon_engine_input(nullptr, 0, &info)) &&
              isRefused(tenon_engine_input(engine, 0, nullptr)) &&
              isRefused(tenon_engine_input(engine, SIZE_MAX, &info));
     }},
    {"tenon_engine_output",
     [](tenon_engine *engine, auto) {
       tenon_port_info info = detail::sized<tenon_port_info>();
       return isRefused(tenon_engine_output(nullptr, 0, &info)) &&
              isRefused(tenon_engine_output(engine, 0, nullptr)) &&
              isRefused(tenon_engine_output(engine, SIZE_MAX, &info));
     }},
    {"tenon_engine_record",
     [](tenon_engine *engine, auto) {
       const char *json = nullptr;
       size_t bytes = 0;
       return isRefused(tenon_engine_record(nullptr, "memory", &json, &bytes)) &&
              isRefused(tenon_engine_record(engine, nullptr, &json, &bytes)) &&
              isRefused(tenon_engine_record(engine, "memory", nullptr, &bytes)) &&
              isRefused(tenon_engine_record(engine, "memory", &json, nullptr));
     }},
    {"tenon_session_create",
     [](tenon_engine *engine, auto) {
       tenon_session *session = nullptr;
       return isRefused(tenon_session_create(nullptr, nullptr, &session)) &&
              isRefused(tenon_session_create(engine, nullptr, nullptr));
     }},
    {"tenon_session_destroy", [](auto, auto) { return tenon_session_destroy(nullptr), true; }},
    {"tenon_session_prepare",
     [](auto, tenon_session *session) {
       tenon_input noDims = {nullptr, nullptr, 2};
       return isRefused(tenon_session_prepare(nullptr, nullptr, 0)) &&
              isRefused(tenon_session_prepare(session, nullptr, 1)) &&
              isRefused(tenon_session_prepare(session, &noDims, 1));
     }},
    {"tenon_session_output_shape",
     [](auto, tenon_session *session) {
       return isRefused(tenon_session_output_shape(nullptr, 0, nullptr, nullptr, nullptr)) &&
              isRefused(tenon_session_output_shape(session, 9, nullptr, nullptr, nullptr)) &&
              !tenon_session_output_shape(session, 0, nullptr, nullptr, nullptr);
     }},
    {"tenon_session_run",
     [](auto, tenon_session *session) {
       tenon_input noDims = {nullptr, nullptr, 2};
       tenon_output kept = {nullptr, 0};
       return isRefused(tenon_session_run(nullptr, nullptr, 0, &kept, 1)) &&
              isRefused(tenon_session_run(session, nullptr, 1, &kept, 1)) &&
              isRefused(tenon_session_run(session, &noDims, 1, &kept, 1)) &&
              isRefused(tenon_session_run(session, nullptr, 0, nullptr, 1));
     }},
    {"tenon_session_output_data",
     [](auto, tenon_session *session) {
       return !tenon_session_output_data(nullptr, 0) && !tenon_session_output_data(session, 9);
     }},
    {"tenon_session_run_tensors",
     [](auto, tenon_session *session) {
       return isRefused(tenon_session_run_tensors(nullptr, nullptr, 0, nullptr, 0, nullptr)) &&
              isRefused(tenon_session_run_tensors(session, nullptr, 1, nullptr, 0, nullptr)) &&
              isRefused(tenon_session_run_tensors(session, nullptr, 0, nullptr, 1, nullptr));
     }},
    {"tenon_session_memory",
     [](auto, tenon_session *session) {
       tenon_memory_use use = detail::sized<tenon_memory_use>();
       return isRefused(tenon_session_memory(nullptr, &use)) &&
              isRefused(tenon_session_memory(session, nullptr));
     }},
    {"tenon_session_facts",
     [](auto, tenon_session *session) {
       tenon_run_facts facts = detail::sized<tenon_run_facts>();
       return isRefused(tenon_session_facts(nullptr, &facts)) &&
              isRefused(tenon_session_facts(session, nullptr));
     }},
    {"tenon_session_set_timing",
     [](auto, auto) { return tenon_session_set_timing(nullptr, 1), true; }},
    {"tenon_session_reset_state",
     [](auto, auto) { return isRefused(tenon_session_reset_state(nullptr)); }},
};

TEST(PublicApi, NullsHaveADocumentedAnswerInEveryFunction) {
  tenon::Engine engine(writeStatic());
  tenon::Session session(engine);
  std::set<std::string> tried;
  for (const NullRow &row : kNullRows) {
    EXPECT_TRUE(row.isAnswered(engine.get(), session.get())) << row.function;
    tried.insert(row.function);
  }
  std::set<std::string> declared;
  std::string header = sourceOf("include/tenon/tenon.h");
  std::regex name("TENON_API [^;(]*(tenon_[a-z_]+)\\(");
  for (std::sregex_iterator it(header.begin(), header.end(), name), end; it != end; ++it) {
    declared.insert((*it)[1]);
  }
  EXPECT_EQ(declared, tried);
}

TEST(PublicApi, TypesMatchTheEngines) {
  EXPECT_EQ(static_cast<int>(TENON_F32), static_cast<int>(DType::F32));
  EXPECT_EQ(static_cast<int>(TENON_BOOL), static_cast<int>(DType::Bool));
  EXPECT_EQ(static_cast<int>(TENON_COMPLEX128), static_cast<int>(DType::Complex128));
  EXPECT_EQ(static_cast<int>(TENON_U2), static_cast<int>(kLastDType));
}

/// Names after (NEEDED) in the output of readelf.
std::vector<std::string> neededBy(const std::string &library) {
  std::istringstream lines(runCommand("readelf -d " + library).text);
  std::vector<std::string> names;
  std::string line;
  while (std::getline(lines, line)) {
    size_t open = line.find('[');
    if (line.find("(NEEDED)") != std::string::npos && open != std::string::npos) {
      names.push_back(line.substr(open + 1, line.find(']') - open - 1));
    }
  }
  return names;
}

TEST(PublicApi, LibraryIsSmallAndLinksNoCompiler) {
  std::string stripped = test::temporaryPath("stripped.so");
  ASSERT_EQ(0, runCommand(std::string("strip -o ") + stripped + " " TENON_RUNTIME_LIBRARY).code);
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  EXPECT_LT(test::readFile(stripped).size(), 600u * 1024);
#endif
  std::vector<std::string> needed = neededBy(TENON_RUNTIME_LIBRARY);
  EXPECT_FALSE(needed.empty());
  const std::vector<std::string> allowed = {"libc.so.6", "libm.so.6", "libstdc++.so.6",
                                            "libgcc_s.so.1", "ld-linux-x86-64.so.2"};
  for (const std::string &name : needed) {
    EXPECT_NE(allowed.end(), std::find(allowed.begin(), allowed.end(), name)) << name;
  }
  // Only the C interface is visible; the detector is tried on a library that shows more.
  auto shown = [](const std::string &library) {
    return runCommand("nm -D --defined-only " + library +
                      " | awk '$2 != \"A\" {print $3}' | "
                      "grep -v '^tenon_'")
        .text;
  };
  EXPECT_EQ("", shown(TENON_RUNTIME_LIBRARY));
  EXPECT_NE("", shown(std::string(TENON_TEST_CODE_DIR) + "/code_two.so"));
}

} // namespace
} // namespace tenon

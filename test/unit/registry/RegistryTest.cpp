// The registry as a library: versions, aliases, gates, the history, and what is wrong with any of
// them.

#include "registry/Registry.h"
#include "registry/Pickle.h"
#include "registry/Schema.h"
#include "registry/Sha256.h"
#include "support/files/ScratchFolder.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

namespace tenon::registry {
namespace {

namespace fs = std::filesystem;

TEST(Sha256, Published) {
  // Examples of FIPS 180-4.
  EXPECT_EQ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", sha256Of(""));
  EXPECT_EQ("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", sha256Of("abc"));
  EXPECT_EQ("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            sha256Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"));
}

TEST(Reference, Forms) {
  EXPECT_EQ("cnn", parseReference("cnn")->name);
  EXPECT_EQ(12, parseReference("cnn:12")->version);
  EXPECT_EQ("production", parseReference("cnn@production")->alias);
  for (std::string_view text :
       {"",        "@a",    ":1",     "cnn:",        "cnn:0",
        "cnn:-1",  "cnn:x", "cnn:1x", "cnn@",        "cnn@7",
        "cnn@a@b", ".cnn",  "-cnn",   "a//b",        "..",
        "/a",      "a/",    "a/../b", "cnn@a/b",     "a/b/c/d/e/f/g/h/i",
        "a b",     "a\nb",  "<b>",    "caf\xc3\xa9", "cnn:99999999999999999999"}) {
    EXPECT_EQ(ErrorId::BadObjectName, parseReference(text).status().id()) << text;
  }
  EXPECT_EQ("vision/eu/cnn", parseReference("vision/eu/cnn@live")->name);
  EXPECT_EQ("a/b/c/d/e/f/g/h", parseReference("a/b/c/d/e/f/g/h:3")->name);
  EXPECT_TRUE(parseReference(std::string(128, 'a')).isOk());
  EXPECT_FALSE(parseReference(std::string(129, 'a')).isOk());
}

TEST(Rights, Text) {
  for (std::string_view text :
       {"read", "read,push:vision/", "admin:a/b/", "push until 2027-01-31T00:00:00.000Z"}) {
    EXPECT_EQ(text, parseRights(text)->text());
  }
  for (std::string_view text :
       {"", "write", "push:", "push:../", "push,", "push until", "push until x",
        "push until 2027-02-31", "push until 2027-01-01T00:00:00", "push;read"}) {
    EXPECT_FALSE(parseRights(text).isOk()) << text;
  }
  Rights rights = *parseRights("read,push:vision/ until 1970-01-01T00:00:01Z");
  EXPECT_TRUE(rights.allow(Role::Push, "vision/cnn") && rights.allow(Role::Read, "cnn"));
  EXPECT_FALSE(rights.allow(Role::Push, "visions") || rights.allow(Role::Push, "vision") ||
               rights.allow(Role::Promote, "vision/cnn") || rights.allow(Role::Push, ""));
  EXPECT_TRUE(rights.isExpired(1000) && !rights.isExpired(999));
  EXPECT_EQ(1000 + 86'400'000, *parseExpiry("1d", 1000));
  EXPECT_EQ(86'400'000, *parseExpiry("1970-01-02", 1000));
  for (std::string_view text : {"", "d", "0d", "-1d", "1.5h", "1y", "1970-01-01", "99999999999h"}) {
    EXPECT_FALSE(parseExpiry(text, 1000).isOk()) << text;
  }
}

Bytes bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Pickle, Imports) {
  using namespace std::string_view_literals;
  // pickle.dumps(os.system, 2) and (os.system, 4), and {"a": 1} by 2.
  EXPECT_EQ((std::vector<std::string>{"posix.system"}),
            importsOfPickle(bytesOf("\x80\x02"
                                    "cposix\nsystem\nq\x00."sv)));
  EXPECT_EQ((std::vector<std::string>{"posix.system"}),
            importsOfPickle(bytesOf(
                "\x80\x04\x95\x14\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."sv)));
  EXPECT_TRUE(importsOfPickle(bytesOf("\x80\x02}q\x00X\x01\0\0\0aq\x01K\x01s."sv))->empty());
  EXPECT_FALSE(isUnsafePickle(bytesOf("\x80\x02"
                                      "ccollections\nOrderedDict\nq\x00."sv)));
  EXPECT_TRUE(isUnsafePickle(bytesOf("\x80\x02"
                                     "cposix\nsystem\nq\x00."sv)));
  EXPECT_TRUE(isUnsafePickle(bytesOf("\x80\x02"
                                     "cposix\nsystem\nq\x00\xff"sv)))
      << "it has run before it breaks off";
  EXPECT_TRUE(isUnsafePickle(bytesOf("\x80\x04\x8c\x01x\x94h\x00h\x00\x93."sv)))
      << "names out of the memo are not followed";
  for (std::string_view none : {"\x80\x02"sv, "\x80\x02\xff\xff"sv, "\x80\x02X\xff\xff\xff\xff"sv,
                                "\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff"sv,
                                "\x80\x02"
                                "cno line"sv,
                                "text"sv, ""sv}) {
    EXPECT_FALSE(importsOfPickle(bytesOf(none)));
  }
}

TEST(Pickle, AnyBytes) {
  std::mt19937_64 random(1);
  int found = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes = "\x80\x02";
    for (int n = 0; n < 64; ++n) {
      bytes += static_cast<char>(random());
    }
    found += isUnsafePickle(bytesOf(bytes));
  }
  EXPECT_LT(found, 3000) << "numbers are taken for pickles";
}

class RegistryTest : public testing::Test {
protected:
  RegistryTest()
      : scratch(std::move(*ScratchFolder::create(fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp",
                                                 "registry-test"))),
        folder(scratch.path() + "/r") {}

  Options options() {
    Options options;
    options.by = "tester";
    options.patience = std::chrono::milliseconds(200);
    options.clock = [this] { return now; };
    return options;
  }
  Registry open() { return std::move(*Registry::create(folder, options())); }
  std::string fileOf(const std::string &content) {
    std::string path = scratch.path() + "/file.bin";
    std::ofstream(path, std::ios::trunc) << content;
    return path;
  }
  Result<Pushed> push(Registry &registry, const std::string &name, const std::string &content,
                      const std::string &kind = "report") {
    PushRequest request = {name, kind, fileOf(content), {}, {{"content", content}}, "a note"};
    request.stamp = FileStamp::of(request.path);
    return registry.push(request);
  }
  Reference version(int64_t number) { return {"cnn", number, ""}; }
  /// Changes the database past the library.
  void tamper(const std::string &statement) {
    sqlite3 *database = nullptr;
    ASSERT_EQ(SQLITE_OK, sqlite3_open((folder + "/registry.db").c_str(), &database));
    // Whoever does it leaves the triggers as they were.
    std::string all = "DROP TRIGGER version_is_immutable; DROP TRIGGER event_is_immutable; DROP "
                      "TRIGGER event_stays; DROP TRIGGER version_stays; " +
                      statement + ";" + kSqliteRules + "PRAGMA user_version = 2;";
    EXPECT_EQ(SQLITE_OK, sqlite3_exec(database, all.c_str(), nullptr, nullptr, nullptr))
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }

  ScratchFolder scratch;
  std::string folder;
  int64_t now = 1'000'000;
};

TEST_F(RegistryTest, Versions) {
  Registry registry = open();
  EXPECT_EQ(1, push(registry, "cnn", "one")->version.number);
  Result<Pushed> second = push(registry, "cnn", "two");
  EXPECT_EQ(2, second->version.number);
  EXPECT_FALSE(second->isExisting);
  Result<Pushed> again = push(registry, "cnn", "one");
  EXPECT_TRUE(again->isExisting);
  EXPECT_EQ(1, again->version.number);
  EXPECT_EQ(sha256Of("one"), again->version.blob.hash);
  Result<Version> newest = registry.find({"cnn", 0, ""});
  EXPECT_EQ(2, newest->number);
  EXPECT_EQ("two", newest->facts["content"]);
  EXPECT_EQ("file.bin", newest->file);
  EXPECT_TRUE(registry.check(*newest).isOk());
  EXPECT_EQ(ErrorId::NoSuchObject, registry.find(version(3)).status().id());
  EXPECT_EQ(ErrorId::NoSuchObject, registry.find({"cnm", 0, ""}).status().id());
  EXPECT_NE(std::string::npos,
            registry.find({"cnm", 0, ""}).status().toString().find("did you mean 'cnn'"));
  EXPECT_EQ(ErrorId::BadObjectName, push(registry, "cnn", "three", "data").status().id());
  EXPECT_EQ(ErrorId::BadObjectName, push(registry, "../cnn", "three").status().id());
  EXPECT_EQ(2u, registry.versions("cnn")->size());
  EXPECT_EQ(1u, registry.objects("", 10)->size());
}

TEST_F(RegistryTest, Aliases) {
  Registry registry = open();
  for (const char *content : {"one", "two", "three"}) {
    ASSERT_TRUE(push(registry, "cnn", content).isOk());
  }
  EXPECT_EQ(ErrorId::NothingToRollBack, [&] {
    EXPECT_TRUE(registry.promote(version(1), "live", {}, "").isOk());
    return registry.rollback("cnn", "live", {}, "").status().id();
  }());
  EXPECT_EQ(1, registry.promote(version(2), "live", 1, "")->from);
  EXPECT_EQ(ErrorId::AliasMoved, registry.promote(version(3), "live", 1, "").status().id());
  EXPECT_EQ(ErrorId::AliasMoved, registry.promote(version(3), "other", 1, "").status().id());
  EXPECT_TRUE(registry.promote(version(3), "other", 0, "").isOk());
  EXPECT_TRUE(registry.promote(version(3), "live", 2, "").isOk());
  // Two steps back, each to where it was before, not to and fro.
  EXPECT_EQ(2, registry.rollback("cnn", "live", {}, "")->to);
  EXPECT_EQ(
      ErrorId::AliasMoved,
      registry.rollback("cnn", "live", 3, "").status().id()); // somebody went back from it before
  EXPECT_EQ(1, registry.rollback("cnn", "live", 2, "")->to);
  EXPECT_EQ(ErrorId::NothingToRollBack, registry.rollback("cnn", "live", {}, "").status().id());
  EXPECT_EQ(ErrorId::NoSuchObject, registry.rollback("cnn", "nowhere", {}, "").status().id());
  EXPECT_EQ(1, registry.find({"cnn", 0, "live"})->number);
  EXPECT_EQ(ErrorId::BadObjectName, registry.promote(version(1), "7", {}, "").status().id());
  EXPECT_EQ(ErrorId::BadObjectName,
            registry.promote(version(1), "live", {}, "two\nlines").status().id());
  // Nothing moves, so nothing happened.
  size_t before = registry.history("", "", 100)->size();
  EXPECT_TRUE(registry.promote(version(1), "live", {}, "").isOk());
  EXPECT_EQ(before, registry.history("", "", 100)->size());
  EXPECT_TRUE(registry.verify("")->problems.empty());
}

/// A result of one rule that was timed for so long.
GateResult gateOf(int64_t version, int64_t champion, GateOutcome outcome,
                  std::vector<std::string> texts, double seconds = 1) {
  GateResult result;
  result.version = version;
  result.alias = "live";
  result.champion = champion;
  result.terms = std::move(texts);
  result.conditions.seconds = seconds;
  Rule rule = *parseRule(result.terms.front());
  double better = rule.isAtLeast ? rule.limit * 2 : rule.limit / 2;
  double worse = rule.isAtLeast ? rule.limit / 2 : rule.limit * 2;
  double low = outcome == GateOutcome::Passed ? better : worse;
  double high = outcome == GateOutcome::Refused ? worse : better;
  RuleResult found = decide(rule, Measured{low, std::min(low, high), std::max(low, high), ""});
  EXPECT_EQ(outcome, found.outcome);
  result.outcome = found.outcome;
  result.figures = figuresOf(std::vector<RuleResult>{found});
  return result;
}

Terms termsOf(std::vector<std::string> texts) { return *parseTerms(texts); }

TEST_F(RegistryTest, Gates) {
  Registry registry = open();
  for (const char *content : {"one", "two", "three"}) {
    ASSERT_TRUE(push(registry, "cnn", content).isOk());
  }
  std::vector<std::string> texts = {"p50 <= champion + 10%"};
  ASSERT_TRUE(registry.setTerms("cnn", "live", termsOf(texts)).isOk());
  EXPECT_EQ(ErrorId::GateRefused, registry.promote(version(1), "live", {}, "").status().id());
  ASSERT_TRUE(registry.record("cnn", gateOf(1, 0, GateOutcome::Undecided, texts)).isOk());
  EXPECT_EQ(ErrorId::GateUndecided, registry.promote(version(1), "live", {}, "").status().id());
  // Again and again until it passes once is no pass; twice as long is.
  ASSERT_TRUE(registry.record("cnn", gateOf(1, 0, GateOutcome::Passed, texts)).isOk());
  EXPECT_EQ(ErrorId::GateUndecided, registry.promote(version(1), "live", {}, "").status().id());
  ASSERT_TRUE(registry.record("cnn", gateOf(1, 0, GateOutcome::Passed, texts, 2)).isOk());
  // A refusal stands until the rules are set anew.
  ASSERT_TRUE(registry.record("cnn", gateOf(1, 0, GateOutcome::Refused, texts)).isOk());
  ASSERT_TRUE(registry.record("cnn", gateOf(1, 0, GateOutcome::Passed, texts, 60)).isOk());
  Status refused = registry.promote(version(1), "live", {}, "").takeStatus();
  EXPECT_EQ(ErrorId::GateRefused, refused.id());
  EXPECT_NE(std::string::npos, refused.toString().find("'p50 <= champion + 10%': p50 is 2.2 x"))
      << refused.toString();
  ASSERT_TRUE(registry.setTerms("cnn", "live", termsOf(texts)).isOk());
  EXPECT_EQ(ErrorId::GateRefused, registry.promote(version(1), "live", {}, "").status().id());
  ASSERT_TRUE(registry.record("cnn", gateOf(1, 0, GateOutcome::Passed, texts)).isOk());
  EXPECT_TRUE(registry.promote(version(1), "other", {}, "").isOk()) << "another alias has no rules";
  EXPECT_TRUE(registry.promote(version(1), "live", {}, "").isOk());
  // A gate of version 3 beside 1 says nothing beside 2.
  ASSERT_TRUE(registry.record("cnn", gateOf(2, 1, GateOutcome::Passed, texts)).isOk());
  ASSERT_TRUE(registry.record("cnn", gateOf(3, 1, GateOutcome::Passed, texts)).isOk());
  EXPECT_TRUE(registry.promote(version(2), "live", {}, "").isOk());
  EXPECT_EQ(ErrorId::AliasMoved, registry.promote(version(3), "live", {}, "").status().id());
  EXPECT_EQ(ErrorId::AliasMoved,
            registry.record("cnn", gateOf(3, 1, GateOutcome::Passed, texts)).id());
  // Nor does one by other rules.
  ASSERT_TRUE(registry.record("cnn", gateOf(3, 2, GateOutcome::Passed, texts)).isOk());
  ASSERT_TRUE(registry.setTerms("cnn", "live", termsOf({"size <= 3MiB"})).isOk());
  EXPECT_EQ(ErrorId::GateRefused, registry.promote(version(3), "live", {}, "").status().id());
  EXPECT_EQ(ErrorId::AliasMoved,
            registry.record("cnn", gateOf(3, 2, GateOutcome::Passed, texts)).id());
  ASSERT_TRUE(registry.setTerms("cnn", "live", {}).isOk());
  EXPECT_TRUE(registry.promote(version(3), "live", {}, "").isOk());
  EXPECT_TRUE(registry.verify("")->problems.empty());
}

TEST_F(RegistryTest, GatesMeasureOnWhatIsPinned) {
  Registry registry = open();
  ASSERT_TRUE(push(registry, "cnn", "one").isOk());
  ASSERT_TRUE(push(registry, "cnn", "two").isOk());
  std::string hash(64, 'a'), other(64, 'b');
  std::vector<std::string> texts = {"top1 >= 85%", dataPin("registry:t:1", hash), "seconds >= 2",
                                    "repetitions >= 2", "machine = A 3000"};
  ASSERT_TRUE(registry.setTerms("cnn", "live", termsOf(texts)).isOk());
  GateResult good = gateOf(1, 0, GateOutcome::Passed, texts, 2);
  good.conditions = {"registry:t:1", hash, 2, "A 3000", "0.1.0"};
  GateResult wrong = good;
  wrong.conditions.dataHash = other;
  EXPECT_EQ(ErrorId::BadGateRule, registry.record("cnn", wrong).id());
  wrong = good;
  wrong.conditions.seconds = 1;
  EXPECT_EQ(ErrorId::BadGateRule, registry.record("cnn", wrong).id());
  wrong = good;
  wrong.conditions.machine = "B 1";
  EXPECT_EQ(ErrorId::BadGateRule, registry.record("cnn", wrong).id());
  wrong = gateOf(1, 0, GateOutcome::Refused, texts, 2);
  wrong.conditions = good.conditions;
  wrong.outcome = GateOutcome::Passed;
  EXPECT_EQ(ErrorId::HistoryAltered, registry.record("cnn", wrong).id()) << "figures say otherwise";
  ASSERT_TRUE(registry.record("cnn", good).isOk());
  EXPECT_EQ(ErrorId::GateUndecided, registry.promote(version(1), "live", {}, "").status().id());
  ASSERT_TRUE(registry.record("cnn", good).isOk());
  EXPECT_TRUE(registry.promote(version(1), "live", {}, "").isOk());
  // Without a pin the first result pins what it was measured on.
  texts = {"top1 >= 85%"};
  ASSERT_TRUE(registry.setTerms("cnn", "live", termsOf(texts)).isOk());
  good = gateOf(2, 1, GateOutcome::Passed, texts);
  EXPECT_EQ(ErrorId::BadGateRule, registry.record("cnn", good).id()) << "on nothing";
  good.conditions.data = "mine.npz";
  good.conditions.dataHash = other;
  ASSERT_TRUE(registry.record("cnn", good).isOk());
  EXPECT_EQ(other, registry.terms("cnn", "live")->dataHash);
  EXPECT_TRUE(registry.promote(version(2), "live", {}, "").isOk());
  EXPECT_TRUE(registry.verify("")->problems.empty());
}

TEST_F(RegistryTest, CollectsNothingThatAliasesName) {
  Registry registry = open();
  for (const char *name : {"model", "data"}) {
    for (const char *content : {"old", "new"}) {
      PushRequest made = {name, name, fileOf(std::string(name) + content), {}, {}, ""};
      made.stamp = FileStamp::of(made.path);
      ASSERT_TRUE(registry.push(made).isOk());
    }
  }
  PushRequest request = {"cnn", "report", fileOf("one"), {}, {{"parent", "model:1"}}, ""};
  request.facts["data"] = "data:1";
  request.stamp = FileStamp::of(request.path);
  ASSERT_TRUE(registry.push(request).isOk());
  EXPECT_EQ(2u, registry.collect(1, true)->versions.size()) << "nothing names them yet";
  ASSERT_TRUE(registry.promote(version(1), "live", {}, "").isOk());
  EXPECT_EQ(0u, registry.collect(1, false)->versions.size());
}

TEST_F(RegistryTest, TheSameBytesAreTheSameVersion) {
  Registry registry = open();
  PushRequest request = {"cnn", "report", fileOf("one"), {}, {{"options", "fast"}}, ""};
  request.stamp = FileStamp::of(request.path);
  request.circumstances = {{"machine", "A"}};
  EXPECT_FALSE(registry.push(request)->isExisting);
  request.circumstances = {{"machine", "B"}};
  EXPECT_TRUE(registry.push(request)->isExisting);
  EXPECT_EQ("A", registry.find(version(1))->facts["machine"]);
  request.facts["options"] = "slow";
  EXPECT_EQ(2, registry.push(request)->version.number);
}

TEST_F(RegistryTest, FoldersThatACopyLeftOut) {
  {
    Registry registry = open();
    ASSERT_TRUE(push(registry, "cnn", "one").isOk());
  }
  for (const fs::directory_entry &each : fs::directory_iterator(folder + "/blobs")) {
    if (fs::is_empty(each.path())) {
      fs::remove(each.path());
    }
  }
  Registry registry = open();
  EXPECT_TRUE(push(registry, "cnn", "two").isOk());
  EXPECT_TRUE(registry.collect({}, false).isOk());
  EXPECT_TRUE(registry.verify("")->problems.empty());
}

TEST_F(RegistryTest, Collects) {
  Registry registry = open();
  for (int i = 1; i <= 6; ++i) {
    ASSERT_TRUE(push(registry, "cnn", std::to_string(i)).isOk());
  }
  ASSERT_TRUE(push(registry, "twin", "2").isOk());
  ASSERT_TRUE(registry.promote(version(1), "live", {}, "").isOk());
  ASSERT_TRUE(registry.promote(version(3), "live", {}, "").isOk());
  EXPECT_EQ(0u, registry.collect({}, false)->versions.size());
  EXPECT_EQ((std::vector<std::string>{"cnn:4", "cnn:2"}), registry.collect(2, true)->versions);
  EXPECT_TRUE(registry.check(*registry.find(version(4))).isOk()) << "a dry run deletes nothing";
  Result<Collected> collected = registry.collect(2, false);
  EXPECT_EQ(2u, collected->versions.size());
  EXPECT_EQ(1u, collected->files) << "the bytes of cnn:2 are those of twin:1 too";
  EXPECT_TRUE(registry.find(version(4))->isDeleted);
  EXPECT_EQ(ErrorId::NoSuchObject, registry.promote(version(4), "live", {}, "").status().id());
  EXPECT_TRUE(registry.check(*registry.find({"twin", 1, ""})).isOk());
  EXPECT_EQ(1, registry.rollback("cnn", "live", {}, "")->to);
  EXPECT_EQ(7, push(registry, "cnn", "4")->version.number) << "a number is never given again";
  EXPECT_TRUE(registry.verify("")->problems.empty());
}

TEST_F(RegistryTest, CollectsWhatKilledProcessesLeft) {
  Registry registry = open();
  ASSERT_TRUE(push(registry, "cnn", "one").isOk());
  std::string orphan = sha256Of("orphan");
  std::ofstream(folder + "/blobs/" + orphan.substr(0, 2) + "/" + orphan) << "orphan";
  std::ofstream(folder + "/blobs/unfinished/1-2") << "half";
  EXPECT_EQ(1u, registry.collect({}, false)->files);
  EXPECT_TRUE(fs::is_empty(folder + "/blobs/unfinished"));
  EXPECT_TRUE(registry.verify("")->problems.empty());
}

TEST_F(RegistryTest, CollectionWaitsForReaders) {
  Registry registry = open();
  Result<FilesLock> reader = registry.keepFiles();
  EXPECT_EQ(ErrorId::RegistryBusy, registry.collect({}, false).status().id());
  EXPECT_TRUE(registry.keepFiles().isOk()) << "those that read share it";
}

TEST_F(RegistryTest, DamagedFiles) {
  Registry registry = open();
  Version pushed = push(registry, "cnn", "one")->version;
  std::string path = registry.pathOf(pushed);
  fs::permissions(path, fs::perms::owner_all);
  for (const char *content : {"onE", "on", "ones", ""}) {
    std::ofstream(path, std::ios::trunc) << content;
    EXPECT_EQ(ErrorId::BlobMismatch, registry.check(pushed).id()) << content;
    Result<Verified> verified = registry.verify("");
    ASSERT_EQ(1u, verified->problems.size());
    EXPECT_EQ(ErrorId::BlobMismatch, verified->problems[0].id());
  }
  ASSERT_TRUE(push(registry, "cnn", "one").isOk());
  EXPECT_TRUE(registry.check(pushed).isOk()) << "a push of the same bytes heals";
  fs::remove(path);
  EXPECT_EQ(ErrorId::BlobMismatch, registry.check(pushed).id());
}

TEST_F(RegistryTest, ChangedWhilePushed) {
  Registry registry = open();
  PushRequest request = {"cnn", "report", fileOf("one"), FileStamp::of(fileOf("other")), {}, ""};
  fileOf("changed since");
  EXPECT_EQ(ErrorId::UnsafeArtifact, registry.push(request).status().id());
  EXPECT_EQ(0u, registry.objects("", 10)->size());
  EXPECT_TRUE(fs::is_empty(folder + "/blobs/unfinished"));
}

TEST_F(RegistryTest, NameOfAFileThatIsNoUtf8) {
  Registry registry = open();
  std::string path = scratch.path() + "/\xff.bin";
  std::ofstream(path) << "one";
  PushRequest request = {"cnn", "report", path, FileStamp::of(path), {}, ""};
  EXPECT_EQ(ErrorId::BadObjectName, registry.push(request).status().id());
}

TEST_F(RegistryTest, AlteredHistory) {
  struct Case {
    const char *what;
    const char *statement;
  };
  std::string whole = scratch.path() + "/whole";
  {
    Registry registry = open();
    ASSERT_TRUE(push(registry, "cnn", "one").isOk());
    ASSERT_TRUE(push(registry, "cnn", "two").isOk());
    ASSERT_TRUE(registry.promote(version(2), "live", {}, "").isOk());
    ASSERT_TRUE(registry.setTerms("cnn", "live", termsOf({"size <= 3MiB"})).isOk());
    ASSERT_TRUE(
        registry.record("cnn", gateOf(1, 2, GateOutcome::Refused, {"size <= 3MiB"})).isOk());
    EXPECT_TRUE(registry.verify(registry.verify("")->head)->problems.empty());
  }
  fs::rename(folder, whole);
  for (const Case &each : {Case{"an event", "UPDATE event SET by = 'somebody' WHERE id = 2"},
                           Case{"an event gone", "DELETE FROM event WHERE id = 2"},
                           Case{"the last events gone", "DELETE FROM event WHERE id > 3"},
                           Case{"a version", "UPDATE version SET note = 'better' WHERE number = 1"},
                           Case{"its facts", "UPDATE version SET facts = '{}' WHERE number = 1"},
                           Case{"its file", "UPDATE version SET blob = (SELECT hash FROM version "
                                            "WHERE number = 2) WHERE number = 1"},
                           Case{"a deletion", "UPDATE version SET blob = NULL WHERE number = 1"},
                           Case{"an alias", "UPDATE alias SET version = 1"},
                           Case{"an alias gone", "DELETE FROM alias"},
                           Case{"a rule", "UPDATE rule SET text = 'size <= 9GiB'"},
                           Case{"a rule gone", "DELETE FROM rule"}}) {
    fs::remove_all(folder);
    fs::copy(whole, folder, fs::copy_options::recursive);
    tamper(each.statement);
    Registry registry = open();
    Result<Verified> verified = registry.verify("");
    ASSERT_FALSE(verified->problems.empty()) << each.what;
    EXPECT_EQ(ErrorId::HistoryAltered, verified->problems[0].id()) << each.what;
  }
}

TEST_F(RegistryTest, KnownHead) {
  std::string head;
  {
    Registry registry = open();
    ASSERT_TRUE(push(registry, "cnn", "one").isOk());
    ASSERT_TRUE(push(registry, "cnn", "two").isOk());
    head = registry.verify("")->head;
  }
  fs::remove_all(folder); // another history, which is whole in itself
  Registry registry = open();
  ASSERT_TRUE(push(registry, "cnn", "one").isOk());
  EXPECT_TRUE(registry.verify("")->problems.empty());
  EXPECT_EQ(ErrorId::HistoryAltered, registry.verify(head)->problems[0].id());
}

TEST_F(RegistryTest, DatabaseKeepsVersionsAndHistory) {
  Registry registry = open();
  ASSERT_TRUE(push(registry, "cnn", "one").isOk());
  sqlite3 *database = nullptr;
  ASSERT_EQ(SQLITE_OK, sqlite3_open((folder + "/registry.db").c_str(), &database));
  for (const char *statement : {"UPDATE version SET note = 'x'", "DELETE FROM version",
                                "UPDATE event SET by = 'x'", "DELETE FROM event"}) {
    EXPECT_EQ(SQLITE_CONSTRAINT, sqlite3_exec(database, statement, nullptr, nullptr, nullptr))
        << statement;
  }
  sqlite3_close(database);
}

TEST_F(RegistryTest, ClockThatGoesBack) {
  Registry registry = open();
  ASSERT_TRUE(push(registry, "cnn", "one").isOk());
  now -= 500'000;
  ASSERT_TRUE(push(registry, "cnn", "two").isOk());
  std::vector<Event> events = *registry.history("", "", 10);
  EXPECT_EQ(2, events[0].version);
  EXPECT_GT(events[1].time, events[0].time) << "a wrong clock shows, and nobody inherits it";
  EXPECT_EQ(2, registry.find({"cnn", 0, ""})->number) << "the newest is so by number";
  EXPECT_TRUE(registry.verify("")->problems.empty());
}

TEST_F(RegistryTest, OtherFiles) {
  EXPECT_EQ(ErrorId::BadRegistry, Registry::open(folder, options()).status().id());
  fs::create_directories(folder);
  EXPECT_EQ(ErrorId::BadRegistry, Registry::open(folder, options()).status().id());
  std::ofstream(folder + "/registry.db") << std::string(8192, 'x');
  EXPECT_EQ(ErrorId::BadRegistry, Registry::open(folder, options()).status().id());
  EXPECT_EQ(ErrorId::BadRegistry, Registry::create(folder, options()).status().id());
  fs::remove(folder + "/registry.db");
  sqlite3 *database = nullptr;
  ASSERT_EQ(SQLITE_OK, sqlite3_open((folder + "/registry.db").c_str(), &database));
  ASSERT_EQ(SQLITE_OK, sqlite3_exec(database, "CREATE TABLE other (a)", nullptr, nullptr, nullptr));
  sqlite3_close(database);
  EXPECT_EQ(ErrorId::BadRegistry, Registry::create(folder, options()).status().id())
      << "somebody else's database";
  fs::remove_all(folder);
  {
    Registry registry = open();
  }
  ASSERT_EQ(SQLITE_OK, sqlite3_open((folder + "/registry.db").c_str(), &database));
  ASSERT_EQ(SQLITE_OK,
            sqlite3_exec(database, "PRAGMA user_version = 3", nullptr, nullptr, nullptr));
  sqlite3_close(database);
  EXPECT_NE(std::string::npos,
            Registry::open(folder, options()).status().toString().find("another format"));
}

TEST_F(RegistryTest, ManyAtOnce) {
  {
    Registry registry = open();
  }
  constexpr int kThreads = 4, kEach = 10;
  std::vector<std::thread> threads;
  std::atomic<int> moved = 0, lost = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Options own = options();
      own.patience = std::chrono::seconds(30);
      Registry registry = std::move(*Registry::open(folder, own));
      for (int i = 0; i < kEach; ++i) {
        std::string path = scratch.path() + "/" + std::to_string(t) + "-" + std::to_string(i);
        std::ofstream(path) << path;
        Result<Pushed> pushed = registry.push({"cnn", "report", path, FileStamp::of(path), {}, ""});
        ASSERT_TRUE(pushed.isOk()) << pushed.status().toString();
        // All want to move the alias from what they saw: one of those that saw the same does.
        int64_t seen = *registry.aliasOf("cnn", "live");
        Result<Move> move = registry.promote({"cnn", pushed->version.number, ""}, "live", seen, "");
        ASSERT_TRUE(move.isOk() || move.status().id() == ErrorId::AliasMoved)
            << move.status().toString();
        ++(move.isOk() ? moved : lost);
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  Registry registry = open();
  EXPECT_EQ(kThreads * kEach, static_cast<int>(registry.versions("cnn")->size()));
  int promotions = 0;
  Result<std::vector<Event>> events = registry.history("cnn", "live", 1000);
  for (const Event &event : *events) {
    promotions += event.action == "promote";
  }
  EXPECT_EQ(moved.load(), promotions);
  Result<Verified> verified = registry.verify("");
  EXPECT_TRUE(verified->problems.empty());
  EXPECT_EQ(static_cast<uint64_t>(kThreads * kEach + promotions), verified->events);
}

TEST_F(RegistryTest, CreatedByManyAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Options own = options();
      own.patience = std::chrono::seconds(30);
      Result<Registry> made = Registry::create(folder, own);
      EXPECT_TRUE(made.isOk()) << made.status().toString();
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

} // namespace
} // namespace tenon::registry

// Opens each file of a list by the door it is for and prints what came of it: the error, seconds,
// and how many kilobytes the memory grew. `bad_files seed ENGINE` writes the engine that others are
// damaged from.
//
// bad_files check LIST   lines of DOOR <tab> PATH on standard output become DOOR <tab> PATH <tab>
// ERROR <tab> SECONDS
//                        <tab> KILOBYTES. Each file has a process of its own, so that a crash is an
//                        answer too.
// bad_files stay LIST    the same in one process, for sanitizers: the first fault ends it.

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/onnx/wire/TensorData.h"
#include "engine/Format.h"
#include "engine/Reader.h"
#include "runtime/tensors/Image.h"
#include "runtime/tensors/Npy.h"
#include "support/files/MappedFile.h"
#include "test/fault/files/ImportDoor.h"
#include "test/unit/engine/EngineFixture.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon {
namespace {

using Door = Status (*)(const std::string &path);

/// What the process has computed for, which other processes do not change.
double processorSeconds() {
  struct timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Status checkOpened(const engine::EngineFile &file) {
  TENON_TRY(file.verifyWeights());
  for (const std::string &name : file.recordNames()) {
    TENON_TRY(file.record(name).takeStatus());
  }
  return Status::ok();
}

Status engineDoor(const std::string &path) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(path));
  return checkOpened(*file);
}

/// Makes the hashes of a damaged engine right again, as someone hostile would.
Status rehashedDoor(const std::string &path) {
  std::vector<std::byte> image = test::readFile(path);
  engine::FileHeader header;
  std::memcpy(&header, image.data(), sizeof(header));
  std::vector<engine::SectionEntry> sections(header.sectionCount);
  std::copy_n(image.data() + sizeof(header), sections.size() * sizeof(sections[0]),
              reinterpret_cast<std::byte *>(sections.data()));
  for (engine::SectionEntry &section : sections) {
    bool isInside =
        section.offset <= image.size() && section.bytes <= image.size() - section.offset;
    if (section.kind != engine::SectionKind::Weights && isInside) {
      Hash128 hash = hashBytes(Bytes(image).subspan(section.offset, section.bytes));
      section.hashLow = hash.low;
      section.hashHigh = hash.high;
    }
  }
  Hash128 hash = engine::headerHash(header, sections);
  header.hashLow = hash.low;
  header.hashHigh = hash.high;
  std::memcpy(image.data(), &header, sizeof(header));
  std::ranges::copy(std::as_bytes(std::span(sections)), image.begin() + sizeof(header));
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::fromMemory(image));
  return checkOpened(*file);
}

/// As for an engine with the one input x: float32 of at most 64x8.
Status npzDoor(const std::string &path) {
  return readNpz(path,
                 [](const std::string &name, const NpyHeader &header) {
                   bool isWanted =
                       name == "x" && header.dtype == DType::F32 && header.dataBytes <= 64 * 8 * 4;
                   return isWanted ? Status::ok()
                                   : Status::error(ErrorId::RunInputCount, "not an input");
                 })
      .takeStatus();
}

Status npyDoor(const std::string &path) { return readNpy(path).takeStatus(); }

Status imageDoor(const std::string &path) {
  Preprocessing preprocessing{{0}, {1}, ImageLayout::Nchw, true};
  return loadImage(path, preprocessing, DType::F32, {1, 3, 8, 8}).takeStatus();
}

// Faults of a reader that the tests of this program must report.
Status slowDoor(const std::string &) {
  for (double start = processorSeconds(); processorSeconds() < start + 1.5;) {
  }
  return Status::error(ErrorId::BadTensorFile, "slow");
}
Status hungryDoor(const std::string &) {
  std::vector<char> memory(200 << 20, 'x');
  return Status::error(ErrorId::BadTensorFile, std::string_view(memory.data(), 5));
}
Status crashingDoor(const std::string &) {
  raise(SIGSEGV);
  return Status::ok();
}

const std::map<std::string_view, Door> kDoors = {
    {"onnx", test::importDoor}, {"pt2", test::pt2Door},
    {"engine", engineDoor},     {"engine-rehashed", rehashedDoor},
    {"npz", npzDoor},           {"npy", npyDoor},
    {"image", imageDoor},       {"slow", slowDoor},
    {"hungry", hungryDoor},     {"crashing", crashingDoor}};

struct Outcome {
  std::string error;
  double seconds = 0;
  long kilobytes = 0;
};

Outcome openHere(Door door, const std::string &path) {
  double start = processorSeconds();
  Status status = door(path);
  struct rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  return {status.isOk() ? "ok" : nameOf(status.id()), processorSeconds() - start, use.ru_maxrss};
}

/// In a child; the memory is what it grew by from the moment when it was made.
Outcome openInChild(Door door, const std::string &path) {
  int ends[2];
  if (pipe(ends) != 0) {
    return {"no pipe"};
  }
  pid_t child = fork();
  if (child == 0) {
    alarm(60); // who waits for ever ends by a signal
    struct rusage before = {};
    getrusage(RUSAGE_SELF, &before);
    Outcome outcome = openHere(door, path);
    std::ostringstream text;
    text << outcome.error << ' ' << outcome.seconds << ' ' << outcome.kilobytes - before.ru_maxrss;
    bool isWritten = write(ends[1], text.str().data(), text.str().size()) > 0;
    _exit(isWritten ? 0 : 1);
  }
  close(ends[1]);
  char buffer[256] = {};
  ssize_t got = read(ends[0], buffer, sizeof(buffer) - 1);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (got <= 0) {
    return {WIFSIGNALED(status) ? "signal-" + std::to_string(WTERMSIG(status)) : "exit"};
  }
  Outcome outcome;
  std::istringstream(buffer) >> outcome.error >> outcome.seconds >> outcome.kilobytes;
  return outcome;
}

int check(const char *list, bool isolated) {
  std::ifstream lines(list);
  std::string line;
  while (std::getline(lines, line)) {
    size_t tab = line.find('\t');
    std::map<std::string_view, Door>::const_iterator door = kDoors.find(line.substr(0, tab));
    if (tab == std::string::npos || door == kDoors.end()) {
      std::fprintf(stderr, "not a line of a list: %s\n", line.c_str());
      return 2;
    }
    std::string path = line.substr(tab + 1);
    Outcome outcome = isolated ? openInChild(door->second, path) : openHere(door->second, path);
    std::printf("%s\t%s\t%.3f\t%ld\n", line.c_str(), outcome.error.c_str(), outcome.seconds,
                outcome.kilobytes);
    std::fflush(stdout);
  }
  return 0;
}

int writeSeed(const char *path) {
  test::TestEngine engine(test::dynamicPlan(), test::productWeights());
  return engine.write(path).isOk() ? 0 : 1;
}

} // namespace
} // namespace tenon

int main(int count, char **arguments) {
  std::string verb = count == 3 ? arguments[1] : "";
  if (verb == "seed") {
    return tenon::writeSeed(arguments[2]);
  }
  if (verb == "check" || verb == "stay") {
    return tenon::check(arguments[2], verb == "check");
  }
  std::fprintf(stderr, "bad_files seed ENGINE | check LIST | stay LIST\n");
  return 2;
}

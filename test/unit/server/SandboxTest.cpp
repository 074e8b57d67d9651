// What a worker may not do any more, each tried in a process of its own; and that it can still do
// what it is for.

#include "server/worker/Sandbox.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon::server {
namespace {

/// The error that `call` ends with in a sandbox; 0 where it succeeds.
int errorInside(const std::function<long()> &call) {
  pid_t child = fork();
  if (child == 0) {
    enterSandbox();
    errno = 0;
    _exit(call() < 0 ? errno : 0);
  }
  int how = 0;
  waitpid(child, &how, 0);
  return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

TEST(Sandbox, RefusesCallsThatAWorkerDoesNotNeed) {
  if (prctl(PR_GET_SECCOMP) < 0) {
    GTEST_SKIP() << "the kernel has no seccomp";
  }
  const char *none[] = {nullptr};
  EXPECT_EQ(errorInside([&] {
              return execve("/bin/true", const_cast<char **>(none), const_cast<char **>(none));
            }),
            EPERM);
  EXPECT_EQ(errorInside([] { return socket(AF_INET, SOCK_STREAM, 0); }), EPERM);
  EXPECT_EQ(errorInside([] { return socket(AF_INET6, SOCK_DGRAM, 0); }), EPERM);
  EXPECT_EQ(errorInside([] { return socket(AF_NETLINK, SOCK_RAW, 0); }), EPERM);
  EXPECT_EQ(errorInside([] { return kill(getppid(), 0); }), EPERM);
  EXPECT_EQ(errorInside([] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }), EPERM);
  EXPECT_EQ(errorInside([] { return syscall(SYS_ptrace, 0, 0, 0, 0); }), EPERM);
  EXPECT_EQ(errorInside([] { return syscall(SYS_unshare, 0); }), EPERM);
  EXPECT_EQ(errorInside([] { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0L : -1L; }), 0);
}

TEST(Sandbox, NoFileIsWritten) {
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1) {
    GTEST_SKIP() << "the kernel has no Landlock";
  }
  std::string path = testing::TempDir() + "tenon_sandbox_test";
  std::FILE *file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fclose(file);
  EXPECT_EQ(errorInside([&] { return open(path.c_str(), O_WRONLY); }), EACCES);
  EXPECT_EQ(errorInside([&] { return unlink(path.c_str()); }), EACCES);
  EXPECT_EQ(errorInside([&] { return open((path + "_new").c_str(), O_WRONLY | O_CREAT, 0600); }),
            EACCES);
  EXPECT_EQ(errorInside([&] { return open(path.c_str(), O_RDONLY); }), 0);
  EXPECT_EQ(errorInside([] { return open("/dev/null", O_WRONLY); }), 0);
  EXPECT_EQ(errorInside([] { return open("/proc/self/comm", O_WRONLY); }), 0)
      << "NVIDIA's driver names its threads";
  unlink(path.c_str());
}

TEST(Sandbox, ThreadsAndMemoryWork) {
  EXPECT_EQ(errorInside([] {
              long sum = 0;
              std::thread([&] { sum = 1; }).join();
              int memory = memfd_create("test", MFD_CLOEXEC);
              void *code =
                  mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return sum == 1 && memory >= 0 && code != MAP_FAILED ? 0L : -1L;
            }),
            0);
}

} // namespace
} // namespace tenon::server

// Landlock and seccomp by their system calls. The filter refuses what stands in one table rather
// than allowing a list: engines for a GPU bring the driver's library along, and what that calls
// changes with its releases.

#include "server/worker/Sandbox.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tenon::server {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

/// Refused with EPERM.
constexpr uint32_t kRefused[] = {
    // Other programs and processes.
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kill,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_kcmp,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    // Rights and names of files; Landlock has no words for these.
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
#ifdef SYS_chmod
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
#endif
    // Identity and namespaces.
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_setgroups,
    SYS_capset,
    SYS_unshare,
    SYS_setns,
    SYS_chroot,
    SYS_pivot_root,
    SYS_mount,
    SYS_umount2,
    // The system, and large parts of the kernel that attacks go through.
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_acct,
    SYS_quotactl,
    SYS_syslog,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_personality,
    SYS_fanotify_init,
};

sock_filter load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}
sock_filter give(uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }
/// Goes on with the next instruction where the loaded word is `value`, or else skips `skipped`.
sock_filter ifEqual(uint32_t value, uint8_t skipped) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
}

std::vector<sock_filter> makeFilter() {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> code = {
      load(offsetof(seccomp_data, arch)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      give(SECCOMP_RET_KILL_PROCESS), load(offsetof(seccomp_data, nr))};
#if defined(__x86_64__)
  constexpr uint32_t kX32 = 0x40000000; // the same calls under other numbers
  code.insert(code.end(), {BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1), give(kRefuse)});
#endif
  for (uint32_t number : kRefused) {
    code.insert(code.end(), {ifEqual(number, 1), give(kRefuse)});
  }
  // Threads, but no processes. clone3 has its flags in memory, which a filter cannot read: without
  // it the library takes clone.
  code.insert(code.end(), {ifEqual(SYS_clone3, 1), give(SECCOMP_RET_ERRNO | ENOSYS)});
  code.insert(code.end(), {ifEqual(SYS_clone, 4), load(offsetof(seccomp_data, args)),
                           BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0), give(kRefuse),
                           give(SECCOMP_RET_ALLOW)});
  // Sockets within the machine, as drivers use them: NVIDIA's binds one.
  code.insert(code.end(), {ifEqual(SYS_socket, 4), load(offsetof(seccomp_data, args)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0), give(kRefuse),
                           give(SECCOMP_RET_ALLOW)});
  code.push_back(give(SECCOMP_RET_ALLOW));
  return code;
}

/// No file is made, changed or started, but devices are used, and the process itself is described:
/// NVIDIA's driver names its threads through /proc/self, and does not start without.
void restrictFiles() {
  long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) {
    return;
  }
  landlock_ruleset_attr rules = {};
  rules.handled_access_fs =
      LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
      LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
      LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
      LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  int ruleset = static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0));
  if (ruleset < 0) {
    return;
  }
  for (const char *path : {"/dev", "/proc/self"}) {
    landlock_path_beneath_attr beneath = {};
    beneath.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE;
    beneath.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (beneath.parent_fd >= 0) {
      syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
      close(beneath.parent_fd);
    }
  }
  syscall(SYS_landlock_restrict_self, ruleset, 0);
  close(ruleset);
}

} // namespace

void enterSandbox() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  restrictFiles();
  std::vector<sock_filter> code = makeFilter();
  sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

} // namespace tenon::server

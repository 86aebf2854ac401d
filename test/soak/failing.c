/* failing.c - Preloaded: the k-th call of one function fails, as if the system could not.
 *
 *   FAILING_CALL=mmap      which: a name of the table below
 *   FAILING_AT=3           its third call in a process fails; 0: none does
 *   FAILING_WHERE=all      counted from the start of the program on, a child goes on counting;
 *                 children calls of forked children only, each from one on
 *   FAILING_COUNTS=FILE    of at least 4096 bytes: gets the numbers below
 *
 * A call that the loader makes before there is an environment is not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum call {
  CALL_MALLOC, CALL_MMAP, CALL_MEMFD, CALL_FTRUNCATE, CALL_FALLOCATE, CALL_FCNTL, CALL_SOCKETPAIR,
  CALL_SEND, CALL_RECV, CALL_POLL, CALL_EVENTFD, CALL_SYSCALL, CALL_DLOPEN, CALL_OPEN, CALL_READ,
  CALL_WRITE, CALL_RENAME, CALL_MKDIR, CALL_FORK, CALL_THREAD, CALL_PEEK, CALL_COMPILE, NUM_CALLS
};
static const char *const names[NUM_CALLS] = {
    "malloc", "mmap",    "memfd_create", "ftruncate", "fallocate", "fcntl", "socketpair", "send",
    "recv",   "poll",    "eventfd",      "syscall",   "dlopen",    "open",  "read",       "write",
    "rename", "mkdir",   "fork",         "pthread_create", "process_vm_readv", "compile"};

/* What FAILING_COUNTS gets, in numbers of 64 bits. */
struct counts {
  uint64_t failed;              /* calls that were made to fail, in all processes */
  uint64_t mallocs_before_fork; /* of the process that forks first */
  uint64_t most[NUM_CALLS];          /* calls of the process that makes most */
  uint64_t most_in_child[NUM_CALLS]; /* of a child, from its fork on */
  char caller[256];                  /* the file that holds the code whose malloc failed */
};

static struct counts nowhere;
static struct counts *counts = &nowhere;
static int ready, chosen = -1, children_only, in_child;
static uint64_t at;
static uint64_t made[NUM_CALLS], made_in_child[NUM_CALLS];

/* On first use; nothing here may call what is wrapped. */
static int prepare(void) {
  if (ready)
    return 1;
  if (!environ)
    return 0;
  ready = 1;
  const char *call = getenv("FAILING_CALL"), *when = getenv("FAILING_AT");
  const char *where = getenv("FAILING_WHERE"), *file = getenv("FAILING_COUNTS");
  for (int i = 0; call && i < NUM_CALLS; ++i)
    if (strcmp(call, names[i]) == 0)
      chosen = i;
  at = when ? strtoull(when, NULL, 10) : 0;
  children_only = where && strcmp(where, "children") == 0;
  if (!file)
    return 1;
  /* All arguments are read as long. */
  const long fd = syscall(SYS_openat, (long)AT_FDCWD, file, (long)(O_RDWR | O_CLOEXEC), 0L);
  const long memory =
      fd < 0 ? -1
             : syscall(SYS_mmap, NULL, sizeof *counts, (long)(PROT_READ | PROT_WRITE),
                       (long)MAP_SHARED, fd, 0L);
  if (fd >= 0)
    syscall(SYS_close, fd);
  if (memory > 0)
    counts = (struct counts *)memory;
  return 1;
}

static void raise_to(uint64_t *most, uint64_t value) {
  uint64_t before = __atomic_load_n(most, __ATOMIC_RELAXED);
  while (before < value && !__atomic_compare_exchange_n(most, &before, value, 1, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED))
    ;
}

/* Whether this call is the one. */
static int fails(enum call call, int error) {
  if (!prepare())
    return 0;
  const uint64_t k = __atomic_add_fetch(&made[call], 1, __ATOMIC_RELAXED);
  raise_to(&counts->most[call], k);
  uint64_t child = 0;
  if (in_child) {
    child = __atomic_add_fetch(&made_in_child[call], 1, __ATOMIC_RELAXED);
    raise_to(&counts->most_in_child[call], child);
  }
  if ((int)call != chosen || at == 0 || (children_only ? child : k) != at)
    return 0;
  __atomic_add_fetch(&counts->failed, 1, __ATOMIC_RELAXED);
  errno = error;
  return 1;
}

/* The function that would have been called. */
#define REAL(name)                                                                                 \
  static __typeof__(&name) real;                                                                   \
  if (!real)                                                                                       \
    real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);

/* malloc: straight into the C library, as dlsym may allocate itself. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);

static int malloc_fails(void *caller) {
  if (!fails(CALL_MALLOC, ENOMEM))
    return 0;
  Dl_info info;
  if (dladdr(caller, &info) && info.dli_fname)
    strncpy(counts->caller, info.dli_fname, sizeof counts->caller - 1);
  errno = ENOMEM;
  return 1;
}
#define MALLOC_FAILS malloc_fails(__builtin_return_address(0))

void *malloc(size_t bytes) { return MALLOC_FAILS ? NULL : __libc_malloc(bytes); }
void *calloc(size_t number, size_t bytes) {
  return MALLOC_FAILS ? NULL : __libc_calloc(number, bytes);
}
void *realloc(void *old, size_t bytes) { return MALLOC_FAILS ? NULL : __libc_realloc(old, bytes); }
void *memalign(size_t alignment, size_t bytes) {
  return MALLOC_FAILS ? NULL : __libc_memalign(alignment, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  return MALLOC_FAILS ? NULL : __libc_memalign(alignment, bytes);
}
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  void *got = MALLOC_FAILS ? NULL : __libc_memalign(alignment, bytes);
  if (got)
    *memory = got;
  return got ? 0 : ENOMEM;
}

#define WRAP(result, name, call, error, failure, parameters, arguments)                            \
  result name parameters {                                                                         \
    REAL(name)                                                                                     \
    return fails(call, error) ? (failure) : real arguments;                                        \
  }

WRAP(void *, mmap, CALL_MMAP, ENOMEM, MAP_FAILED,
     (void *at_, size_t bytes, int protection, int flags, int fd, off_t offset),
     (at_, bytes, protection, flags, fd, offset))
WRAP(void *, mmap64, CALL_MMAP, ENOMEM, MAP_FAILED,
     (void *at_, size_t bytes, int protection, int flags, int fd, off64_t offset),
     (at_, bytes, protection, flags, fd, offset))
WRAP(int, memfd_create, CALL_MEMFD, ENOMEM, -1, (const char *name, unsigned flags), (name, flags))
WRAP(int, ftruncate, CALL_FTRUNCATE, EIO, -1, (int fd, off_t bytes), (fd, bytes))
WRAP(int, ftruncate64, CALL_FTRUNCATE, EIO, -1, (int fd, off64_t bytes), (fd, bytes))
WRAP(int, fallocate, CALL_FALLOCATE, ENOSPC, -1, (int fd, int mode, off_t from, off_t bytes),
     (fd, mode, from, bytes))
WRAP(int, socketpair, CALL_SOCKETPAIR, EMFILE, -1, (int domain, int type, int protocol, int ends[2]),
     (domain, type, protocol, ends))
WRAP(int, socket, CALL_SOCKETPAIR, EMFILE, -1, (int domain, int type, int protocol),
     (domain, type, protocol))
WRAP(ssize_t, sendmsg, CALL_SEND, ECONNRESET, -1, (int fd, const struct msghdr *header, int flags),
     (fd, header, flags))
WRAP(ssize_t, send, CALL_SEND, ECONNRESET, -1, (int fd, const void *from, size_t bytes, int flags),
     (fd, from, bytes, flags))
WRAP(ssize_t, recvmsg, CALL_RECV, ECONNRESET, -1, (int fd, struct msghdr *header, int flags),
     (fd, header, flags))
WRAP(ssize_t, recv, CALL_RECV, ECONNRESET, -1, (int fd, void *to, size_t bytes, int flags),
     (fd, to, bytes, flags))
WRAP(int, poll, CALL_POLL, ENOMEM, -1, (struct pollfd *fds, nfds_t number, int timeout),
     (fds, number, timeout))
WRAP(int, eventfd, CALL_EVENTFD, EMFILE, -1, (unsigned value, int flags), (value, flags))
WRAP(FILE *, fopen, CALL_OPEN, EMFILE, NULL, (const char *file, const char *mode), (file, mode))
WRAP(FILE *, fopen64, CALL_OPEN, EMFILE, NULL, (const char *file, const char *mode), (file, mode))
WRAP(ssize_t, read, CALL_READ, EIO, -1, (int fd, void *to, size_t bytes), (fd, to, bytes))
WRAP(ssize_t, pread, CALL_READ, EIO, -1, (int fd, void *to, size_t bytes, off_t from),
     (fd, to, bytes, from))
WRAP(ssize_t, pread64, CALL_READ, EIO, -1, (int fd, void *to, size_t bytes, off64_t from),
     (fd, to, bytes, from))
WRAP(ssize_t, write, CALL_WRITE, ENOSPC, -1, (int fd, const void *from, size_t bytes),
     (fd, from, bytes))
WRAP(ssize_t, writev, CALL_WRITE, ENOSPC, -1, (int fd, const struct iovec *parts, int number),
     (fd, parts, number))
WRAP(int, rename, CALL_RENAME, ENOSPC, -1, (const char *from, const char *to), (from, to))
WRAP(int, renameat, CALL_RENAME, ENOSPC, -1,
     (int folder, const char *from, int other, const char *to), (folder, from, other, to))
WRAP(int, mkdir, CALL_MKDIR, ENOSPC, -1, (const char *path, mode_t mode), (path, mode))
WRAP(ssize_t, process_vm_readv, CALL_PEEK, EFAULT, -1,
     (pid_t pid, const struct iovec *to, unsigned long tos, const struct iovec *from,
      unsigned long froms, unsigned long flags),
     (pid, to, tos, from, froms, flags))

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument) {
  REAL(pthread_create)
  return fails(CALL_THREAD, EAGAIN) ? EAGAIN : real(thread, attributes, body, argument);
}

/* With a mode only if a file may be made. */
#define WRAP_OPEN(name, parameters, arguments, arguments_with_mode)                                \
  int name parameters {                                                                            \
    REAL(name)                                                                                     \
    mode_t mode = 0;                                                                               \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                           \
      va_list list;                                                                                \
      va_start(list, flags);                                                                       \
      mode = va_arg(list, mode_t);                                                                 \
      va_end(list);                                                                                \
      return fails(CALL_OPEN, EMFILE) ? -1 : real arguments_with_mode;                             \
    }                                                                                              \
    return fails(CALL_OPEN, EMFILE) ? -1 : real arguments;                                         \
  }
WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags), (path, flags, mode))
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags), (path, flags, mode))
WRAP_OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags),
          (folder, path, flags, mode))
WRAP_OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags),
          (folder, path, flags, mode))

#define WRAP_FCNTL(name)                                                                           \
  int name(int fd, int command, ...) {                                                             \
    REAL(name)                                                                                     \
    va_list list;                                                                                  \
    va_start(list, command);                                                                       \
    void *argument = va_arg(list, void *);                                                         \
    va_end(list);                                                                                  \
    return fails(CALL_FCNTL, EMFILE) ? -1 : real(fd, command, argument);                           \
  }
WRAP_FCNTL(fcntl)
WRAP_FCNTL(fcntl64)

/* pidfd_open, which has no function of its own everywhere. */
long syscall(long number, ...) {
  REAL(syscall)
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; ++i)
    a[i] = va_arg(list, long);
  va_end(list);
  if (ready && fails(CALL_SYSCALL, EMFILE))
    return -1;
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* With what dlerror says afterwards. */
void *dlopen(const char *file, int mode) {
  REAL(dlopen)
  return real(fails(CALL_DLOPEN, ENOENT) ? "/failing/call.so" : file, mode);
}

pid_t fork(void) {
  REAL(fork)
  uint64_t none = 0;
  __atomic_compare_exchange_n(&counts->mallocs_before_fork, &none, made[CALL_MALLOC], 0,
                              __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  if (fails(CALL_FORK, EAGAIN))
    return -1;
  const pid_t child = real();
  if (child == 0)
    in_child = 1;
  return child;
}

/* const Target *llvm::TargetRegistry::lookupTarget(StringRef, std::string &): without a target
 * nothing is compiled. */
#define LOOKUP                                                                                     \
  _ZN4llvm14TargetRegistry12lookupTargetENS_9StringRefERNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE
const void *LOOKUP(const char *text, size_t length, void *error);
#define REAL_LOOKUP(name) REAL(name)
const void *LOOKUP(const char *text, size_t length, void *error) {
  REAL_LOOKUP(LOOKUP)
  return fails(CALL_COMPILE, 0) ? NULL : real(text, length, error);
}

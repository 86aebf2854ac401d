//===- Processes.cpp --------------------------------------------------------===//
#include "test/unit/runtime/Processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace ccl::test {

Child::Child(const std::function<std::string()> &body) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    abort();
  process = fork();
  if (process == 0) {
    close(ends[0]);
    const std::string text = body();
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t written = write(ends[1], text.data() + sent, text.size() - sent);
      if (written <= 0)
        break;
      sent += size_t(written);
    }
    _exit(0);
  }
  close(ends[1]);
  pipe = ends[0];
}

Child::Child(Child &&other) noexcept
    : process(std::exchange(other.process, -1)), pipe(std::exchange(other.pipe, -1)) {}

Child::~Child() {
  if (pipe >= 0)
    close(pipe);
  if (process > 0) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
}

std::string Child::text() {
  std::string text;
  char buffer[4096];
  while (true) {
    pollfd one{pipe, POLLIN, 0};
    const int ready = poll(&one, 1, 60000);
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready <= 0) {
      kill(process, SIGKILL);
      return "hangs";
    }
    const ssize_t got = read(pipe, buffer, sizeof buffer);
    if (got <= 0)
      return text;
    text.append(buffer, size_t(got));
  }
}

int Child::status() {
  int status = 0;
  if (waitpid(std::exchange(process, -1), &status, 0) < 0)
    return 1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

Signal::Signal() {
  if (::pipe2(ends, O_CLOEXEC) != 0)
    abort();
}

Signal::~Signal() {
  close(ends[0]);
  close(ends[1]);
}

void Signal::tell(int times) const {
  for (int i = 0; i < times; ++i)
    if (write(ends[1], "x", 1) != 1)
      abort();
}

void Signal::wait(int times) const {
  char byte;
  for (int i = 0; i < times; ++i)
    while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
      ;
}

int countDescriptors() {
  DIR *folder = opendir("/proc/self/fd");
  int count = -1; // opendir's own
  while (const dirent *entry = readdir(folder))
    count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

Folder::Folder() {
  char name[] = "/tmp/ccl-test-XXXXXX";
  if (!mkdtemp(name))
    abort();
  root = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(root, ignored);
}

bool Folder::isEmpty() const { return std::filesystem::is_empty(root); }

} // namespace ccl::test

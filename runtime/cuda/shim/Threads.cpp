//===- Threads.cpp ----------------------------------------------------------===//
#include "runtime/cuda/shim/Threads.h"

#include <signal.h>

#include <algorithm>
#include <chrono>

namespace ccl::cuda::shim {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CCL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CCL_SANITIZED 1
#endif
#endif
#ifdef CCL_SANITIZED
constexpr size_t stackBytes = 1 << 20;
#else
constexpr size_t stackBytes = 256 << 10;
#endif

bool Threads::start(unsigned n, std::function<void(unsigned)> body) {
  auto shared = std::make_shared<const std::function<void(unsigned)>>(std::move(body));
  std::lock_guard lock(mutex);
  if (stopping)
    return false;
  while (idle.size() < n)
    if (!spawn())
      return false;
  for (unsigned i = 0; i < n; ++i) {
    Worker *worker = idle.back();
    idle.pop_back();
    worker->body = shared;
    worker->index = i;
    worker->wake.notify_one();
  }
  return true;
}

bool Threads::spawn() {
  auto worker = std::make_unique<Worker>();
  worker->all = this;
  idle.reserve(workers.size() + 1);
  workers.reserve(workers.size() + 1);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0)
    return false;
  sigset_t every, before;
  sigfillset(&every);
  // Inherited: an application's handlers need more stack than these threads have.
  pthread_sigmask(SIG_SETMASK, &every, &before);
  const bool made = pthread_attr_setstacksize(&attributes, stackBytes) == 0 &&
                    pthread_create(&worker->thread, &attributes, &Threads::main, worker.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (!made)
    return false;
  idle.push_back(worker.get());
  workers.push_back(std::move(worker));
  return true;
}

void *Threads::main(void *argument) {
  auto *self = static_cast<Worker *>(argument);
  Threads &all = *self->all;
  std::unique_lock lock(all.mutex);
  for (;;) {
    self->wake.wait(lock, [&] { return self->body || all.stopping; });
    if (!self->body)
      return nullptr;
    auto body = std::move(self->body);
    self->body = nullptr;
    const unsigned index = self->index;
    lock.unlock();
    (*body)(index);
    body = nullptr; // what it holds goes while nothing is locked
    lock.lock();
    all.idle.push_back(self);
    all.becameIdle.notify_all();
  }
}

bool Threads::stop() {
  constexpr auto patience = std::chrono::seconds(2);
  std::vector<pthread_t> ended;
  std::unique_lock lock(mutex);
  stopping = true;
  const bool all =
      becameIdle.wait_for(lock, patience, [&] { return idle.size() == workers.size(); });
  for (Worker *worker : idle) {
    worker->wake.notify_one();
    ended.push_back(worker->thread);
  }
  for (const std::unique_ptr<Worker> &worker : workers)
    if (std::find(idle.begin(), idle.end(), worker.get()) == idle.end())
      pthread_detach(worker->thread);
  lock.unlock();
  for (const pthread_t thread : ended)
    pthread_join(thread, nullptr);
  return all;
}

} // namespace ccl::cuda::shim

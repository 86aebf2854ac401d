//===- Main.cpp - soak: long runs that look for what is wrong -----------------------------===//
#include "frontend/cli/Sizes.h"
#include "test/soak/Soak.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <thread>

namespace ccl::soak {
namespace {

/// Runs the verb that was named.
using Action = std::function<int()>;

/// What every verb takes.
void addCommon(CLI::App &verb, std::vector<Kind> &parsed, Milliseconds &timeout) {
  parsed = {Kind::Threads, Kind::Processes};
  verb.add_option_function<std::string>(
      "--ranks",
      [&parsed](const std::string &text) {
        std::optional<std::vector<Kind>> found = parseKinds(text);
        if (!found)
          throw CLI::ValidationError("--ranks", "expected threads, processes or both, got " + text);
        parsed = std::move(*found);
      },
      "what a rank is: threads, processes or both, in turn (default)");
  verb.add_option_function<int64_t>(
          "--timeout", [&timeout](int64_t seconds) { timeout = Milliseconds(seconds * 1000); },
          "seconds until a launch is given up")
      ->check(CLI::Range(int64_t(1), int64_t(86400)));
}

Action addMatrix(CLI::App &verb) {
  auto options = std::make_shared<MatrixOptions>();
  addCommon(verb, options->kinds, options->timeout);
  options->jobs = std::max(1u, std::thread::hardware_concurrency());
  verb.add_option("--collective", options->filter.collective, "only this one");
  verb.add_option("--algorithm", options->filter.algorithm, "only this generator");
  verb.add_option_function<std::string>(
      "-n",
      [options](const std::string &text) {
        auto ranks = cli::parseRanks(text);
        if (!ranks)
          throw CLI::ValidationError("-n", llvm::toString(ranks.takeError()));
        options->filter.ranks = std::move(*ranks);
      },
      "numbers of ranks (default: 1..8,12,16)");
  verb.add_option("--sample", options->sample,
                  "only so many programs that have as many pairs of values as possible; 0: all "
                  "pairs");
  verb.add_option("--seed", options->seed, "of the sample");
  verb.add_option_function<std::string>(
      "--part",
      [options](const std::string &text) {
        const llvm::StringRef whole(text);
        auto [part, parts] = whole.split('/');
        if (part.getAsInteger(10, options->part) || parts.getAsInteger(10, options->parts) ||
            options->part < 1 || options->part > options->parts)
          throw CLI::ValidationError("--part", "expected a part such as 2/4, got " + text);
        --options->part;
      },
      "1/4: only every fourth program, from the first one on");
  verb.add_option("--jobs", options->jobs, "processes that compile and run (default: cores)")
      ->check(CLI::Range(int64_t(1), int64_t(256)));
  return [options] { return runMatrix(*options); };
}

Action addRandom(CLI::App &verb) {
  auto options = std::make_shared<RandomOptions>();
  addCommon(verb, options->kinds, options->timeout);
  verb.add_option("--collectives", options->collectives,
                  "how many, of each kind of ranks (default: 20000)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  verb.add_option("--seed", options->seed, "what is done follows from it (default: 1)");
  verb.add_option("-n", options->ranks, "ranks (default: 4)")
      ->check(CLI::Range(int64_t(2), int64_t(16)));
  verb.add_option("--epoch", options->onlyEpoch, "only this one, to see it again");
  return [options] { return runRandom(*options); };
}

Action addLarge(CLI::App &verb) {
  auto options = std::make_shared<LargeOptions>();
  addCommon(verb, options->kinds, options->timeout);
  verb.add_option("--elements", options->elements, "of all types (default: 10556587)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  verb.add_option_function<std::string>(
      "--bytes",
      [options](const std::string &text) {
        auto bytes = cli::parseSize(text);
        if (!bytes)
          throw CLI::ValidationError("--bytes", llvm::toString(bytes.takeError()));
        options->bytes = *bytes;
      },
      "of the largest buffer (default: 5G); 0: without it");
  return [options] { return runLarge(*options); };
}

Action addFaults(CLI::App &verb) {
  auto options = std::make_shared<FaultOptions>();
  verb.add_option("--kills", options->kills, "SIGKILLs at random moments (default: 100)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 30));
  verb.add_option("--stops", options->stops, "SIGSTOPs at random moments (default: 100)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 30));
  verb.add_option("--sample", options->sample,
                  "only so many cases of fault points x actions x ranks (default: all)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 30));
  verb.add_option("-n", options->ranks, "numbers of ranks (default: 2,3,8)")
      ->delimiter(',')
      ->check(CLI::Range(int64_t(2), int64_t(64)));
  verb.add_option("--programs", options->programs, "for each number of ranks (default: 6)")
      ->check(CLI::Range(int64_t(1), int64_t(1000)));
  verb.add_option("--seed", options->seed, "what is done follows from it (default: 1)");
  verb.add_option("--case", options->only, "only the one with this number");
  verb.add_option("--jobs", options->jobs, "cases at a time (default: 1)")
      ->check(CLI::Range(int64_t(1), int64_t(64)));
  verb.add_flag("-v,--verbose", options->verbose, "say what each case was");
  return [options] { return runFaults(*options); };
}

} // namespace
} // namespace ccl::soak

int main(int argc, char **argv) {
  using namespace ccl::soak;
  CLI::App app("Long runs that look for what is wrong.", "soak");
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App *, Action>> verbs;
  auto add = [&](const char *name, const char *what, Action (*fill)(CLI::App &)) {
    CLI::App *verb = app.add_subcommand(name, what);
    verbs.emplace_back(verb, fill(*verb));
  };
  add("matrix", "every collective, generator, type, reduction, count, number and kind of ranks",
      addMatrix);
  add("random", "random collectives on communicators that come and go", addRandom);
  add("faults", "ranks are killed, stopped and cut off, at random and at every fault point",
      addFaults);
  add("large", "10556587 elements, and a buffer of 5 GiB", addLarge);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (auto &[verb, action] : verbs)
    if (verb->parsed())
      return action();
  return 2;
}

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

/// An option that parse(text) understands, or refuses with an error.
template <typename T, typename Parse>
void addParsed(CLI::App &verb, const char *name, T &into, Parse parse, const char *what) {
  verb.add_option_function<std::string>(
      name,
      [name, &into, parse](const std::string &text) {
        llvm::Expected<T> parsed = parse(text);
        if (!parsed)
          throw CLI::ValidationError(name, llvm::toString(parsed.takeError()));
        into = std::move(*parsed);
      },
      what);
}

/// A number from `least` to `most`, or several.
template <typename T>
CLI::Option *addNumber(CLI::App &verb, const char *name, T &into, int64_t least, int64_t most,
                       const char *what) {
  return verb.add_option(name, into, what)->check(CLI::Range(least, most));
}
constexpr int64_t plenty = int64_t(1) << 40;

/// What most verbs take.
void addCommon(CLI::App &verb, std::vector<Kind> &kinds, Milliseconds &timeout) {
  kinds = {Kind::Threads, Kind::Processes};
  addParsed(verb, "--ranks", kinds, parseKinds,
            "what a rank is: threads, processes or both, in turn (default)");
  verb.add_option_function<int64_t>(
          "--timeout", [&timeout](int64_t seconds) { timeout = std::chrono::seconds(seconds); },
          "seconds until a launch is given up")
      ->check(CLI::Range(int64_t(1), int64_t(86400)));
}

void addDevice(CLI::App &verb, bool &onShim) {
  verb.add_option_function<std::string>(
          "--device", [&onShim](const std::string &device) { onShim = device == "shim"; },
          "where ranks live: host (default) or shim, the stand-in for GPUs")
      ->check(CLI::IsMember({"host", "shim"}));
}

llvm::Expected<Part> parsePart(llvm::StringRef text) {
  Part part;
  auto [number, of] = text.split('/');
  if (number.getAsInteger(10, part.number) || of.getAsInteger(10, part.of) || part.number < 1 ||
      part.number > part.of)
    return makeFailure(Failure::BadArgument, "expected a part such as 2/4, got {}", text.str());
  return part;
}

Action addMatrix(CLI::App &verb) {
  auto options = std::make_shared<MatrixOptions>();
  addCommon(verb, options->kinds, options->timeout);
  options->jobs = std::max(1u, std::thread::hardware_concurrency());
  verb.add_option("--collective", options->filter.collective, "only this one");
  verb.add_option("--algorithm", options->filter.algorithm, "only this generator");
  addDevice(verb, options->filter.onShim);
  verb.add_option("--protocol", options->filter.protocols, "on the stand-in (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(allProtocols()));
  addParsed(verb, "-n", options->filter.ranks, cli::parseRanks,
            "numbers of ranks (default: 1..8,12,16; on the stand-in 1..8)");
  verb.add_option("--sample", options->sample,
                  "only so many programs that have as many pairs of values as possible; 0: all "
                  "pairs");
  verb.add_option("--seed", options->seed, "of the sample");
  addParsed(verb, "--part", options->part, parsePart,
            "1/4: only every fourth program, from the first one on");
  addNumber(verb, "--jobs", options->jobs, 1, 256,
            "processes that compile and run (default: cores)");
  return [options] {
    if (options->filter.onShim || options->filter.protocols.empty())
      return runMatrix(*options);
    fmt::print(stderr, "--protocol: only with --device shim\n");
    return 2;
  };
}

Action addRandom(CLI::App &verb) {
  auto options = std::make_shared<RandomOptions>();
  addCommon(verb, options->kinds, options->timeout);
  addNumber(verb, "--collectives", options->collectives, 1, plenty,
            "how many, of each kind of ranks (default: 20000)");
  verb.add_option("--seed", options->seed, "what is done follows from it (default: 1)");
  addNumber(verb, "-n", options->ranks, 2, 16, "ranks (default: 4)");
  verb.add_option("--epoch", options->onlyEpoch, "only this one, to see it again");
  return [options] { return runRandom(*options); };
}

void addPlace(CLI::App &verb, HostsPlace &place) {
  addNumber(verb, "--hosts", place.hosts, 1, 64, "how many (default: 2)");
  addNumber(verb, "--per-host", place.perHost, 1, 64, "ranks of each (default: 2)");
  addNumber(verb, "--here", place.here, 0, 63,
            "start the ranks of this host alone (default: of all, as NICs of this machine)");
  verb.add_option("--address", place.address, "of rank 0 (default: 10.77.0.1:14791)");
  verb.add_option("--nic", place.nic, "device without its number (default: rxe)");
  verb.add_option("--mtu", place.mtu, "of queue pairs, at most");
}

Action addHosts(CLI::App &verb) {
  auto options = std::make_shared<HostsOptions>();
  addPlace(verb, options->place);
  verb.add_option("--collective", options->filter.collective, "only this one");
  verb.add_option("--algorithm", options->filter.algorithm, "only this generator");
  addParsed(verb, "--part", options->part, parsePart,
            "1/4: only every fourth program, from the first one on");
  verb.add_option("--counts", options->counts, "elements of a shard")->delimiter(',');
  addNumber(verb, "--large", options->largeCount, 0, plenty,
            "elements, once for each program (default: 100003)");
  verb.add_flag(
      "--in-turn", [options](int64_t) { options->allPairs = false; },
      "types and reductions take turns, beyond the first generator of a collective");
  verb.add_option_function<int64_t>(
      "--timeout", [options](int64_t s) { options->timeout = std::chrono::seconds(s); },
      "seconds until a launch is given up");
  return [options] { return runHostsMatrix(*options); };
}

Action addLarge(CLI::App &verb) {
  auto options = std::make_shared<LargeOptions>();
  addCommon(verb, options->kinds, options->timeout);
  addDevice(verb, options->onShim);
  addNumber(verb, "--elements", options->elements, 1, plenty,
            "of all types (default: 10556587); on the host");
  addParsed(verb, "--bytes", options->bytes, cli::parseSize,
            "of the largest buffer (default: 5G); 0: without it");
  return [options] { return runLarge(*options); };
}

Action addFaults(CLI::App &verb) {
  auto options = std::make_shared<FaultOptions>();
  addNumber(verb, "--kills", options->kills, 0, plenty,
            "SIGKILLs at random moments (default: 100)");
  addNumber(verb, "--stops", options->stops, 0, plenty,
            "SIGSTOPs at random moments (default: 100)");
  addNumber(verb, "--sample", options->sample, 0, plenty,
            "only so many cases of fault points x actions x ranks (default: all)");
  addNumber(verb, "-n", options->ranks, 2, 64, "numbers of ranks (default: 2,3,8)")->delimiter(',');
  addNumber(verb, "--programs", options->programs, 1, 1000,
            "for each number of ranks (default: 6)");
  verb.add_option("--seed", options->seed, "what is done follows from it (default: 1)");
  verb.add_option("--case", options->only, "only the one with this number");
  addNumber(verb, "--jobs", options->jobs, 1, 64, "cases at a time (default: 1)");
  verb.add_flag("-v,--verbose", options->verbose, "say what each case was");
  auto place = std::make_shared<HostsPlace>();
  place->hosts = 1;
  addPlace(verb, *place);
  addNumber(verb, "--links", options->links, 0, plenty,
            "links of hosts that go down at random moments (default: 0)");
  verb.add_option("--link-command", options->linkCommand,
                  "'COMMAND down 1' takes the link of host 1 down, 'COMMAND up 1' brings it up");
  return [options, place] {
    if (place->hosts > 1) {
      options->place = *place;
      options->ranks = {place->ranks()};
      options->sample = 0;
    } else if (options->links > 0) {
      fmt::print(stderr, "--links: only with --hosts\n");
      return 2;
    }
    return runFaults(*options);
  };
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
  add("hosts", "every collective, generator, type and reduction over NICs between hosts", addHosts);
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

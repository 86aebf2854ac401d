//===- Main.cpp - The `ccl` driver --------------------------------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/Output.h"

#include "llvm/Support/Process.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <csignal>
#include <fcntl.h>
#include <new>
#include <unistd.h>

using namespace ccl::cli;

namespace {

struct Command {
  const char *name, *summary;
  Action (*add)(CLI::App &);
};
constexpr Command commands[] = {
    {"run", "compile a collective, execute it on n ranks, check and time it", addRun},
    {"check", "prove that an algorithm or a file of another system computes its collective",
     addCheck},
    {"convert", "prove, and write as MSCCL XML, MSCCL++ JSON or programs in MLIR", addConvert},
    {"compile", "stop anywhere between algorithm and object code", addCompile},
    {"explain", "say in words what every rank does, and what would run", addExplain},
    {"topo", "read or name a machine, show it and what no schedule on it can beat", addTopo},
    {"plan", "find the best algorithm for a topology, and prove it", addPlan},
    {"sim", "say how long a program takes on a topology, and why", addSim},
    {"info", "version, devices, settings, algorithms", addInfo},
};

std::string commandNames() {
  std::string names;
  for (const Command &command : commands)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", command.name);
  return names;
}

bool isCommand(std::string_view word) {
  for (const Command &command : commands)
    if (word == command.name)
      return true;
  return false;
}

/// Errors before there are parsed options: --json is looked for among the words.
int usageError(int argc, char **argv, const std::string &who, const std::string &message) {
  Session session{ccl::Settings()};
  for (int i = 1; i < argc; ++i)
    session.json |= std::string_view(argv[i]) == "--json";
  return session.usage(message, who);
}

/// Options before the command would be taken for wrong ones by CLI11: the first word
/// decides.
int answerFirstWord(int argc, char **argv) {
  std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty() || (word[0] != '-' && !isCommand(word)))
    return usageError(
        argc, argv, "ccl",
        fmt::format("{}; the commands are {}",
                    word.empty() ? "name a command" : fmt::format("unknown command '{}'", word),
                    commandNames()));
  return Fine;
}

bool parse(CLI::App &app, int argc, char **argv, int &status) {
  // CLI11 reports by exceptions; they end here.
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::Success &success) {
    app.exit(success); // --help, --version: to stdout
    status = Fine;
  } catch (const CLI::ParseError &error) {
    std::string command = argc > 1 && isCommand(argv[1]) ? fmt::format(" {}", argv[1]) : "";
    status = usageError(argc, argv, "ccl" + command, error.what());
    printError("ccl: note: `ccl{} --help` lists the options\n", command);
  }
  return false;
}

int runCommand(int argc, char **argv, const std::vector<std::pair<CLI::App *, Action>> &actions) {
  llvm::Expected<ccl::Settings> settings = ccl::Settings::fromEnvironment();
  if (!settings)
    return usageError(argc, argv, "ccl", llvm::toString(settings.takeError()));
  settings->report();
  Session session(std::move(*settings));
  for (const auto &[command, action] : actions) {
    if (!command->parsed())
      continue;
    try {
      return action(session);
    } catch (const std::bad_alloc &) {
      return session.machine("out of memory");
    }
  }
  return BadUsage;
}

/// `ccl help run` is `ccl run --help`.
std::vector<char *> withoutHelp(int argc, char **argv) {
  std::vector<char *> words(argv, argv + argc);
  static char option[] = "--help";
  if (argc > 1 && std::string_view(argv[1]) == "help") {
    words.erase(words.begin() + 1);
    words.insert(words.begin() + std::min<size_t>(words.size(), 2), option);
  }
  return words;
}

int runMain(int typed, char **words) {
  std::vector<char *> list = withoutHelp(typed, words);
  const int argc = int(list.size());
  char **argv = list.data();
  if (int status = answerFirstWord(argc, argv))
    return status;
  CLI::App app{"ccl compiles, proves and runs collective communication", "ccl"};
  app.set_version_flag("--version", std::string("ccl ") + CCL_VERSION);
  app.set_help_flag("-h,--help", "this text");
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App *, Action>> actions;
  for (const Command &command : commands) {
    CLI::App *sub = app.add_subcommand(command.name, command.summary);
    actions.emplace_back(sub, command.add(*sub));
    // "" is how unset options look, so nobody may type it (-n "$RANKS").
    for (CLI::Option *option : sub->get_options())
      if (option->get_items_expected_min() > 0)
        option->check([](const std::string &text) {
          return std::string(text.empty() ? "the value is empty" : "");
        });
  }
  int status = Fine;
  if (!parse(app, argc, argv, status))
    return status;
  return runCommand(argc, argv, actions);
}

} // namespace

int main(int argc, char **argv) {
  millisecondsSinceStart(); // reads the kernel's record before anything takes time
  // A file that may not grow is an error of writing, not the end of the process.
  signal(SIGXFSZ, SIG_IGN);
  // Else results would go to nowhere, and nobody would be told: here writing fails.
  if (fcntl(STDOUT_FILENO, F_GETFD) < 0)
    if (int null = open("/dev/null", O_RDONLY); null >= 0 && null != STDOUT_FILENO) {
      dup2(null, STDOUT_FILENO);
      close(null);
    }
  // Else a file that is opened later gets the number of a closed stdout, and the results.
  if (std::error_code error = llvm::sys::Process::FixupStandardFileDescriptors())
    return MachineFailed; // there is no place to say why
  int status = runMain(argc, argv);
  std::string lost = finishOutput();
  if (lost.empty())
    return status;
  printError("ccl: error: cannot write to standard output: {}\n", lost);
  return MachineFailed;
}

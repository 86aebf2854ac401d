"""Writes docs/generated/: what the sources already say, for reading.

    python3 docs/generate.py --build build/dev [--check]

dialect.md and passes.md come from the .td files, settings.md from `ccl info`.
`--check` writes nothing, and fails if a page would change.
"""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LLVM = pathlib.Path("/usr/lib/llvm-19")
TOP = "<!-- Written by ./dev docs; change the sources, not this page. -->\n\n"
LEVELS = [("Collective", "L0: what"), ("Algorithm", "L1: who moves what"),
          ("Program", "L2: one program per rank")]


def tablegen(generator, file, *flags):
    command = [LLVM / "bin" / "mlir-tblgen", generator, *flags, f"-I{ROOT}",
               f"-I{LLVM}/include", ROOT / file]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise SystemExit(f"mlir-tblgen {file}: {result.stderr}")
    return result.stdout


def section(page, title):
    """What stands under `## title`, up to the next heading of that rank."""
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return match.group(1).strip() + "\n" if match else ""


def dialect():
    whole = tablegen("-gen-dialect-doc", "dialect/CclDialect.td", "-dialect=ccl")
    intro = whole[whole.index("# 'ccl' Dialect"):whole.index("[TOC]")].strip()
    parts = [intro.replace("# 'ccl' Dialect", "# The ccl dialect", 1)]
    for name, title in LEVELS:
        page = tablegen("-gen-dialect-doc", f"dialect/Ccl{name}Ops.td", "-dialect=ccl")
        operations = re.sub(r" \(::ccl::\w+\)$", "", section(page, "Operations"),
                            flags=re.MULTILINE)
        parts.append(f"## {title}\n\n{operations.strip()}")
    for title in ("Attributes", "Types", "Enums"):
        parts.append(f"## {title}\n\n{section(whole, title).strip()}")
    return "\n\n".join(parts) + "\n"


def passes():
    text = tablegen("-gen-pass-doc", "passes/Passes.td")
    text = re.sub(r"\A<!--.*?-->\n", "", text)
    # One rank up: the page has a title of its own.
    text = re.sub(r"^#(?=##)", "", text, flags=re.MULTILINE)
    return "# Passes of ccl-opt\n\n" + text.strip() + "\n"


def settings(build):
    result = subprocess.run([build / "bin" / "ccl", "info", "-c", "--markdown"],
                            stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise SystemExit(f"ccl info -c --markdown exits with {result.returncode}")
    return "# Settings\n\n" + result.stdout.strip() + "\n"


def tidy(text):
    """No trailing blanks, no runs of empty lines."""
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    pages = {"dialect.md": dialect(), "passes.md": passes(),
             "settings.md": settings(arguments.build.resolve())}
    stale = 0
    for name, text in pages.items():
        file = ROOT / "docs" / "generated" / name
        new = TOP + tidy(text)
        old = file.read_text() if file.exists() else ""
        if new == old:
            continue
        if not arguments.check:
            file.parent.mkdir(exist_ok=True)
            file.write_text(new)
            print(f"wrote {file.relative_to(ROOT)}")
            continue
        stale += 1
        print(f"docs/generated/{name} is stale: run ./dev docs and commit it")
        sys.stdout.writelines(list(difflib.unified_diff(
            old.splitlines(True), new.splitlines(True), "committed", "now"))[:20])
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

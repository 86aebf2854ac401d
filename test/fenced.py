"""Gives every fenced `mlir` block of the pages to ccl-opt.

    python3 test/fenced.py ROOT SCRATCH

A block that is not a module on its own is fenced as `mlir-fragment`; one that must be
refused as `mlir-wrong` (it parses, and `ccl check` must exit with 1).
"""
import pathlib
import re
import subprocess
import sys

FENCE = re.compile(r"^```(mlir|mlir-wrong)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages(root):
    yield root / "README.md"
    # docs/generated quotes op descriptions, whose examples are fragments.
    yield from sorted((root / "docs").glob("*.md"))


def fails(command, where, status=0):
    """Runs it. Unless it exits with `status`, says so."""
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode == status:
        return False
    print(f"{where}: {' '.join(command[:2])} exits with {result.returncode}, not {status}\n"
          f"{result.stdout}")
    return True


def main():
    root, scratch = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    scratch.mkdir(parents=True, exist_ok=True)
    blocks = failures = 0
    for page in pages(root):
        text = page.read_text()
        for match in FENCE.finditer(text):
            blocks += 1
            line = text.count("\n", 0, match.start()) + 2
            file = scratch / f"{page.stem}-{line}.mlir"
            # Empty lines before it make the compiler's line numbers those of the page.
            file.write_text("\n" * (line - 1) + match.group(2))
            where = f"{page.relative_to(root)}:{line}"
            failures += fails(["ccl-opt", "--verify-roundtrip", "-o", "/dev/null", str(file)], where)
            if match.group(1) == "mlir-wrong":
                failures += fails(["ccl", "check", str(file)], where, status=1)
    print(f"{blocks} blocks, {failures} failures")
    return 1 if failures or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())

"""Fails if a file of examples/ is run by no test of this folder or missing in README."""
import pathlib
import sys

root = pathlib.Path(sys.argv[1])
tests = "".join(t.read_text() for t in pathlib.Path(__file__).parent.glob("*.test"))
readme = (root / "examples" / "README.md").read_text()
missing = 0
for example in sorted((root / "examples").glob("*.mlir")):
    for command in ("check", "run"):
        if f"ccl {command} %examples/{example.name}" not in tests:
            print(f"{example.name}: no test does `ccl {command}` with it")
            missing += 1
    if f"({example.name})" not in readme:
        print(f"{example.name}: not in examples/README.md")
        missing += 1
sys.exit(1 if missing else 0)

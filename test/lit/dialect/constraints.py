"""Numbered constraints: ops' descriptions, docs/semantics.md and tests have the same ones."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])

# "C2" below `def Ccl_CopyOp : Ccl_MoveOp<"copy">` is copy_c2. The class of all collectives
# and the contract attribute carry theirs without a mnemonic of their own.
described = set()
for td in sorted((root / "dialect").glob("*.td")):
    subject = None
    for line in td.read_text().splitlines():
        if start := re.match(r'def Ccl_\w+ : Ccl_\w+<"(\w+)"', line):
            subject = start.group(1)
        elif start := re.match(r"(?:class|def) Ccl_(CollectiveOp|Contract)\b", line):
            subject = start.group(1).removesuffix("Op").lower()
        if constraint := re.match(r"\s*- C(\d+):", line):
            described.add(f"{subject}_c{constraint.group(1)}")

page = (root / "docs" / "semantics.md").read_text()
documented = set(re.findall(r"^- `(\w+_c\d+)`:", page, re.MULTILINE))

tests = "".join(t.read_text() for t in (root / "test/lit/dialect").glob("verify-*.mlir"))
tested = set(re.findall(r"[@{%](\w+?_c\d+)", tests))

failures = 0
for name in sorted(described | documented | tested):
    for place, names in (("the .td description", described), ("docs/semantics.md", documented),
                         ("test/lit/dialect/verify-*.mlir", tested)):
        if name not in names:
            print(f"{name} is not in {place}")
            failures += 1
print(f"{len(described)} constraints, {failures} failures")
sys.exit(1 if failures or not described else 0)

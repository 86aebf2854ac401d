"""Runs the examples of a page.

    python3 docs.py PAGE SCRATCH

Every ```python block is a script, whose name is in its first line (`# name.py`). It must
exit with 0, and print what the ```text block behind it says (files without their folder).
"""
import os
import pathlib
import re
import subprocess
import sys

EXAMPLE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?",
                     re.MULTILINE | re.DOTALL)


def main():
    page, scratch = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    text = page.read_text()
    examples = list(EXAMPLE.finditer(text))
    failures = 0
    for match in examples:
        name, code, wanted = match.groups()
        (scratch / name).write_text(f"# {name}\n{code}")
        environment = dict(os.environ)
        if wanted is None:  # one rank of a job
            environment.update(CCL_RANK="0", CCL_SIZE="1")
        result = subprocess.run([sys.executable, name], cwd=scratch, capture_output=True,
                                text=True, timeout=60, env=environment)
        said = result.stdout.replace(f"{scratch}/", "")
        if result.returncode or (wanted is not None and said != wanted):
            failures += 1
            at = text.count("\n", 0, match.start()) + 1
            print(f"{page}:{at}: {name} exits with {result.returncode} and prints\n"
                  f"{result.stdout}{result.stderr}")
    if len(examples) != text.count("```python"):
        failures += 1
        print(f"{page}: a block does not begin with its name")
    print(f"{len(examples)} examples, {failures} failures")
    return 1 if failures or not examples else 0


if __name__ == "__main__":
    sys.exit(main())

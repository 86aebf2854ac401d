"""Runs the `ccl topo` and `ccl sim` lines that pages show in blocks without a language.

    python3 test/commands.py FOLDER PAGE...

FOLDER has the files that they name, and gets what they write.
"""
import re
import shlex
import subprocess
import sys

FENCE = re.compile(r"^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(page):
    text = open(page, encoding="utf-8").read()
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            # What stands behind two blanks says what it is for.
            line = re.split(r"\s\s+#|\s{3,}(?=\w)", line)[0]
            if re.match(r"ccl (topo|sim) .*[^.]$", line):
                yield line


def main(folder, *pages):
    failed = ran = 0
    for page in pages:
        for line in commands(page):
            result = subprocess.run(shlex.split(line), cwd=folder, capture_output=True, text=True)
            ran += 1
            if result.returncode or not result.stdout:
                failed += 1
                print(f"{page}: {line}\n{result.stdout}{result.stderr}")
    print(f"{ran} commands, {failed} failed")
    return failed > 0 or ran == 0


sys.exit(main(*sys.argv[1:]))

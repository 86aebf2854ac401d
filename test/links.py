"""Fails if a relative link in README.md, docs/ or examples/ leads nowhere.

    python3 test/links.py ROOT
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
pages = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/*.md")]
broken = 0
for page in sorted(pages):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not (page.parent / target).exists():
            print(f"{page.relative_to(root)}: {target} does not exist")
            broken += 1
print(f"{len(pages)} pages, {broken} broken links")
sys.exit(1 if broken else 0)

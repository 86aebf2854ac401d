"""Compiles every fenced `cpp` block of the pages against the public headers.

    python3 test/fenced_cpp.py ROOT BUILD SCRATCH COMPILER

A block with a `main` is linked and must exit with 0. A `cpp fragment` stands in a function
that has a communicator `world` and fails by `return fail(text)`; it is only compiled.
"""
import pathlib
import re
import sys

from fenced import fails, pages

FENCE = re.compile(r"^```cpp( fragment)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRELUDE = """#include <ccl/builder.h>
#include <string>
#include <vector>
int fail(const std::string &);
"""
FRAGMENT = """int fragment{line}(ccl::Communicator &world) {{
#line {line} "{page}"
{text}
return 0;
}}
"""


def main():
    root, build, scratch = (pathlib.Path(argument) for argument in sys.argv[1:4])
    scratch.mkdir(parents=True, exist_ok=True)
    # A fragment does not use all that it shows.
    compiler = [sys.argv[4], "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable",
                "-Wno-unused-parameter", f"-I{build}/include"]
    library = [f"-L{build}/lib", "-lccljit", "-pthread", f"-Wl,-rpath,{build}/lib"]
    blocks = failures = 0
    for page in pages(root):
        content = page.read_text()
        fragments = ""
        for match in FENCE.finditer(content):
            blocks += 1
            line = content.count("\n", 0, match.start()) + 2
            if match.group(1):
                fragments += FRAGMENT.format(line=line, page=page, text=match.group(2))
                continue
            file = scratch / f"{page.stem}-{line}.cpp"
            program = str(file.with_suffix(""))
            file.write_text(f'#line {line} "{page}"\n{match.group(2)}')
            where = f"{page.relative_to(root)}:{line}"
            failures += (fails(compiler + [str(file), "-o", program] + library, where) or
                         fails([program], where))
        if fragments:  # all of a page at once: the headers cost the time
            file = scratch / f"{page.stem}.cpp"
            file.write_text(PRELUDE + fragments)
            failures += fails(compiler + ["-fsyntax-only", str(file)], page.relative_to(root))
    print(f"{blocks} blocks, {failures} failures")
    return 1 if failures or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())

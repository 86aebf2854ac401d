"""Checks that sources include only what their layer may see.

    python3 test/layers.py ROOT

The layers are those of docs/architecture.md. A file belongs to the deepest layer
whose folder it is in. `test/` may include everything.
"""
import pathlib
import re
import sys

# Layer: the layers right below it. What those may include, it may include, too.
BELOW = {
    "frontend": ["codegen", "runtime", "dialect/simulate"],
    "codegen": ["passes", "runtime/plan"],
    "runtime": ["runtime/plan", "dialect/model"],
    "passes": ["dialect", "passes/synthesis/solver"],
    "dialect": ["dialect/model"],
    "passes/synthesis/solver": ["dialect/simulate"],
    "runtime/plan": ["dialect/model"],
    "dialect/simulate": ["dialect/bound"],
    "dialect/bound": ["dialect/model"],
    "dialect/model": [],
}
WITHOUT_LLVM = {"runtime/plan", "dialect/model", "dialect/bound", "dialect/simulate",
                "passes/synthesis/solver"}
WITHOUT_MLIR = WITHOUT_LLVM | {"runtime"}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def layer_of(path):
    """The deepest layer that the relative path lies in, or None."""
    inside = [name for name in BELOW if path.startswith(name + "/")]
    return max(inside, key=len, default=None)


def reach(layer):
    seen, todo = set(), [layer]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += BELOW[name]
    return seen


def main():
    root = pathlib.Path(sys.argv[1])
    files = failures = 0
    for folder in sorted({name.split("/")[0] for name in BELOW}):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".cuh"):
                continue
            files += 1
            own = file.relative_to(root).as_posix()
            layer = layer_of(own)
            allowed = reach(layer)
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(1)
                other = layer_of(target)
                why = ""
                if other and other not in allowed:
                    why = f"{layer} must not see {other}"
                elif not other and '"' in line and not target.startswith(("mlir/", "llvm/")) \
                        and (file.parent / target).exists() \
                        and file.parent.name != "device":  # one text is made of them
                    why = f"write the path from the root: {file.parent.relative_to(root)}/{target}"
                elif target.startswith(("mlir/", "mlir-c/")) and layer in WITHOUT_MLIR:
                    why = f"{layer} is without MLIR"
                elif target.startswith(("llvm/", "llvm-c/")) and layer in WITHOUT_LLVM:
                    why = f"{layer} is without LLVM"
                if why:
                    failures += 1
                    print(f"{own}:{number}: includes {target}: {why}")
    print(f"{files} files, {failures} failures")
    return 1 if failures or not files else 0


if __name__ == "__main__":
    sys.exit(main())

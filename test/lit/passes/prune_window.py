"""Prints an algorithm of 1,000 copies; `check`: looks at its programs, on standard input."""
import sys

COPIES, WINDOW = 1000, 256


def algorithm():
    copies = "\n".join(f"  ccl.copy %x[0, {c}] into %x[1, {c}]" for c in range(COPIES))
    return ("ccl.algorithm @a implements #ccl.contract<custom> {\n"
            f"  %x = ccl.buffer inout ranks(2) chunks({COPIES})\n{copies}\n}}\n")


def check(text):
    """Rank 0 has its data ready at once; before they moved, signals and waits took turns."""
    owner = text.split("ccl.program")[1]
    kinds = [line.split()[0] for line in owner.splitlines()
             if line.strip().startswith(("ccl.signal", "ccl.wait"))]
    assert kinds.count("ccl.signal") == kinds.count("ccl.wait") == COPIES, len(kinds)
    signals = [i for i, kind in enumerate(kinds) if kind == "ccl.signal"]
    assert signals[0] == 0 and signals[-1] > COPIES + WINDOW, signals[-1]
    assert kinds[:WINDOW // 2] == ["ccl.signal"] * (WINDOW // 2), "they do move"


if __name__ == "__main__":
    check(sys.stdin.read()) if "check" in sys.argv else print(algorithm(), end="")

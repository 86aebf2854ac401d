"""Prints a program whose text is nested `depth` deep, or whose index has `depth` operators."""
import sys

kind, depth = sys.argv[1], int(sys.argv[2])
index = {
    "parentheses": "(" * depth + "0" + ")" * depth,
    "minuses": "-" * depth + "0",
    "sum": "%i" + " + %i" * depth,
    "loops": "0",
}[kind]
loops = depth if kind == "loops" else 1
print("ccl.algorithm @deep implements #ccl.contract<custom> {")
print("  %x = ccl.buffer inout ranks(2) chunks(1)")
for level in range(loops):
    print(f"  affine.for %i{level if level else ''} = 0 to 1 {{")
print(f"  ccl.copy %x[{index}, 0] into %x[1, 0]")
print("}" * (loops + 1))

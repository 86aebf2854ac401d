"""All-reduce on boxes of ranks: every rank's chunk is reduced in each box, then between boxes, and
the sums are put back the same way.  Usage: tree_all_reduce.py BOXES RANKS"""

import sys

BOXES, RANKS = int(sys.argv[1]), int(sys.argv[2])


def index(variable, by, extent):
    return f"%{variable}" if by % extent == 0 else f"(%{variable} + {by % extent}) mod {extent}"


def place(box, rank):
    return f"%x[{index('box', box, BOXES)}, {index('rank', rank, RANKS)}, %box, %rank]"


def move(kind, word, source, destination, how):
    print(f"    affine.parallel (%box, %rank) = (0, 0) to ({BOXES}, {RANKS}) {{")
    print(f"      ccl.{kind} {place(*source)} {word} {place(*destination)} via {how}")
    print("    }")


print("ccl.algorithm @tree implements #ccl.contract<all_reduce, sum> {")
print(f"  %x = ccl.buffer inout ranks({BOXES}, {RANKS}) chunks({BOXES}, {RANKS})")
for box in [*range(1, BOXES), 0]:
    for rank in range(1, RANKS):
        move("reduce", "into", (box, rank), (box, 0), f"staged agents(0 to {1 if box else 4})")
    if box:
        move("reduce", "into", (box, 0), (0, 0), "staged agents(1 to 4)")
for box in [*range(1, BOXES), 0]:
    if box:
        move("copy", "into", (0, 0), (box, 0), "put agents(1 to 0) tag 1")
    for rank in range(1, RANKS):
        move("copy", "into", (box, 0), (box, rank), "put agents(0 to 3) tag 1")
print("}")

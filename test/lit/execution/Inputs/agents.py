"""Programs of several agents a rank, written by hand: `agents.py NAME` prints the module."""
import sys


def module(name, contract, ranks, buffers, body):
    """`buffers`: (name, role, chunks); `body(rank)`: lines of that rank's program."""
    lines = [f"ccl.algorithm @{name} implements #ccl.contract<{contract}> lowered {{"]
    for buffer, role, chunks in buffers:
        lines.append(f"  %{buffer} = ccl.buffer {role} ranks({ranks}) chunks({chunks})")
    lines.append("}")
    for rank in range(ranks):
        lines.append(f"ccl.program @{name}.{rank} of @{name} ranks({rank}) {{")
        for buffer, role, chunks in buffers:
            lines.append(f"  %{buffer} = ccl.buffer {role} chunks({chunks})")
        lines += ["  " + line for line in body(rank)]
        lines.append("}")
    return "\n".join(lines)


def agent(kind, number, *instructions):
    return [f"ccl.{kind} {number} {{", *("  " + i for i in instructions), "}"]


def many_channels():
    """33 channels between two ranks, each with agents of its own at both ends."""
    def body(rank):
        lines = []
        for tag in range(33):
            lines.append(f"%to{tag} = ccl.channel to {1 - rank} tag {tag} slots {1 + tag % 3}")
            lines.append(f"%from{tag} = ccl.channel from {1 - rank} tag {tag} slots {1 + tag % 3}")
        for tag in range(33):
            lines += agent("block", tag, f"ccl.transfer from %from{tag} to %out[{tag}]")
            lines += agent("proxy", tag, f"ccl.transfer from %in[{tag}] to %to{tag}")
        return lines
    return module("channels", "permute, to = [1, 0]", 2, [("in", "in", 33), ("out", "out", 33)], body)


def many_steps():
    """65 steps in a block of a pipeline of three, through one slot."""
    def body(rank):
        lines = [f"%to = ccl.channel to {(rank + 1) % 3} slots 1",
                 f"%from = ccl.channel from {(rank + 2) % 3} slots 1"]
        lines += agent("block", 0, *(f"ccl.transfer from %in[{c}] to %to" for c in range(65)))
        lines += agent("block", 7, *(f"ccl.transfer from %from to %out[{c}]" for c in range(65)))
        return lines
    return module("steps", "permute, to = [1, 2, 0]", 3, [("in", "in", 65), ("out", "out", 65)], body)


def chain():
    """17 reductions into one place, one after the other, of what another agent receives."""
    def body(rank):
        if rank > 0:
            return ["%to = ccl.channel to 0 slots 1",
                    *agent("block", 0, "ccl.transfer from %in[0] to %to x 2")]
        lines = [f"%from{r} = ccl.channel from {r} slots 1" for r in range(1, 18)]
        lines += ["%here = ccl.channel to 0 tag 1", "%there = ccl.channel from 0 tag 1"]
        adds, receives = [], []
        for r in range(1, 18):
            adds += ["ccl.wait %there",
                     f"ccl.transfer reduce from %t[{2 * r}], %out[0] to %out[0] x 2"]
            receives += [f"ccl.transfer from %from{r} to %t[{2 * r}] x 2", "ccl.signal %here"]
        lines += agent("block", 0, "ccl.transfer from %in[0] to %out[0] x 2", *adds)
        return lines + agent("block", 1, *receives)
    return module("chain", "reduce, sum", 18,
                  [("in", "in", 2), ("out", "out", 2), ("t", "scratch", 36)], body)


def wide_sum():
    """One transfer with 18 sources, of which 17 are channels, and two destinations."""
    def body(rank):
        if rank > 0:
            return [f"%to = ccl.channel to 0 slots 2", f"%back = ccl.channel from 0 tag 1 slots 1",
                    *agent("block", 0, "ccl.transfer from %in[0] to %to"),
                    *agent("block", 1, "ccl.transfer from %back to %out[0]")]
        lines = [f"%from{r} = ccl.channel from {r} slots 2" for r in range(1, 18)]
        lines += [f"%to{r} = ccl.channel to {r} tag 1 slots 1" for r in range(1, 18)]
        sources = ", ".join(["%in[0]"] + [f"%from{r}" for r in range(1, 18)])
        targets = ", ".join(["%out[0]"] + [f"%to{r}" for r in range(1, 18)])
        return lines + agent("block", 0, f"ccl.transfer reduce from {sources} to {targets}")
    return module("wide", "all_reduce, sum", 18, [("in", "in", 1), ("out", "out", 1)], body)


def peers():
    """Nine peers in one instruction: a sum of their inputs, and a copy to all their outputs."""
    def body(rank):
        if rank > 0:
            return ["%done = ccl.channel from 0", *agent("block", 0, "ccl.wait %done")]
        lines = [f"%i{r} = ccl.peer %in at {r}" for r in range(1, 10)]
        lines += [f"%o{r} = ccl.peer %out at {r}" for r in range(1, 10)]
        lines += [f"%done{r} = ccl.channel to {r}" for r in range(1, 10)]
        lines += ["%here = ccl.channel to 0 tag 1", "%there = ccl.channel from 0 tag 1"]
        lines += agent("block", 0, "ccl.transfer reduce from %in[0], "
                       + ", ".join(f"%i{r}[0]" for r in range(1, 10)) + " to %t[0]", "ccl.signal %here")
        lines += agent("block", 1, "ccl.wait %there", "ccl.transfer from %t[0] to %out[0], "
                       + ", ".join(f"%o{r}[0]" for r in range(1, 10)),
                       *(f"ccl.signal %done{r}" for r in range(1, 10)))
        return lines
    return module("peers", "all_reduce, sum", 10,
                  [("in", "in", 1), ("out", "out", 1), ("t", "scratch", 1)], body)


def proxies():
    """A proxy puts into peers' outputs, told by a block that is told by another."""
    def body(rank):
        others = [r for r in range(4) if r != rank]
        lines = ["%a = ccl.channel to %d tag 10".replace("%d", str(rank)),
                 f"%b = ccl.channel from {rank} tag 10",
                 f"%c = ccl.channel to {rank} tag 11", f"%d = ccl.channel from {rank} tag 11"]
        for r in others:
            lines += [f"%o{r} = ccl.peer %out at {r}", f"%to{r} = ccl.channel to {r}",
                      f"%from{r} = ccl.channel from {r}"]
        lines += agent("proxy", 3, "ccl.wait %d",
                       *(f"ccl.transfer from %t[0] to %o{r}[{3 * rank}] x 3" for r in others),
                       *(f"ccl.signal %to{r}" for r in others))
        lines += agent("block", 2, *(f"ccl.wait %from{r}" for r in reversed(others)))
        lines += agent("block", 1, "ccl.wait %b", "ccl.transfer from %t[0] to %out["
                       + str(3 * rank) + "] x 3", "ccl.signal %c")
        lines += agent("block", 0, "ccl.transfer from %in[0] to %t[0] x 3", "ccl.signal %a")
        return lines
    return module("proxies", "all_gather", 4,
                  [("in", "in", 3), ("out", "out", 12), ("t", "scratch", 3)], body)


def proxies_of_some():
    """Ranks without agents besides a proxy, with none, and with two; one has a sum for them."""
    def body(rank):
        lines = [f"%p{r} = ccl.peer %t at {r}" for r in range(3)]
        lines += [f"%o{r} = ccl.peer %out at {r}" for r in range(3)]
        lines += [f"%to{r} = ccl.channel to {r}" for r in range(3) if r != rank]
        lines += [f"%from{r} = ccl.channel from {r}" for r in range(3) if r != rank]
        if rank == 0:
            for tag in (1, 2):
                lines += [f"%here{tag} = ccl.channel to 0 tag {tag}",
                          f"%there{tag} = ccl.channel from 0 tag {tag}"]
            lines += agent("block", 4, "ccl.wait %from1", "ccl.wait %from2",
                           "ccl.transfer reduce from %in[0], %t[2], %t[4] to %out[0] x 2",
                           "ccl.signal %here1", "ccl.signal %here2")
            for tag in (1, 2):
                lines += agent("proxy", tag, f"ccl.wait %there{tag}",
                               f"ccl.transfer from %out[0] to %o{tag}[0] x 2",
                               f"ccl.signal %to{tag}")
            return lines
        put = [f"ccl.transfer from %in[0] to %p0[{2 * rank}] x 2", "ccl.signal %to0"]
        if rank == 1:
            return lines + agent("proxy", 0, *put, "ccl.wait %from0")
        return lines + agent("block", 0, *put) + agent("block", 1, "ccl.wait %from0")
    return module("some", "all_reduce, sum", 3,
                  [("in", "in", 2), ("out", "out", 2), ("t", "scratch", 6)], body)


def proxy_adds():
    """A proxy that combines two sources."""
    def body(rank):
        return [f"%i = ccl.peer %in at {1 - rank}",
                *agent("proxy", 0, "ccl.transfer reduce from %in[0], %i[0] to %out[0]")]
    return module("adds", "all_reduce, sum", 2, [("in", "in", 1), ("out", "out", 1)], body)


def exit_barrier():
    """Everybody reads the others' inputs and tells nobody when it has."""
    def body(rank):
        lines = [f"%i{r} = ccl.peer %in at {r}" for r in range(4) if r != rank]
        for r in range(4):
            source = "%in" if r == rank else f"%i{r}"
            lines += agent("block", r, f"ccl.transfer from {source}[0] to %out[{2 * r}] x 2")
        return lines
    return module("exit", "all_gather", 4, [("in", "in", 2), ("out", "out", 8)], body)


def batch_barrier():
    """What comes through the scratch of a peer may be overwritten by the next micro-batch."""
    def body(rank):
        other = 1 - rank
        return [f"%p = ccl.peer %t at {other}", f"%to = ccl.channel to {other}",
                f"%from = ccl.channel from {other}",
                *agent("block", 0, "ccl.transfer from %in[0] to %p[0] x 3", "ccl.signal %to"),
                *agent("block", 1, "ccl.wait %from", "ccl.transfer from %t[0] to %out[0] x 3")]
    return module("batches", "permute, to = [1, 0]", 2,
                  [("in", "in", 3), ("out", "out", 3), ("t", "scratch", 3)], body)


def one_batch_barrier():
    """The same with one agent a rank, so it is compiled."""
    def body(rank):
        other = 1 - rank
        return [f"%p = ccl.peer %t at {other}", f"%to = ccl.channel to {other}",
                f"%from = ccl.channel from {other}",
                *agent("proxy", 5, "ccl.transfer from %in[0] to %p[0] x 3", "ccl.signal %to",
                       "ccl.wait %from", "ccl.transfer from %t[0] to %out[0] x 3")]
    return module("one", "permute, to = [1, 0]", 2,
                  [("in", "in", 3), ("out", "out", 3), ("t", "scratch", 3)], body)


def one_inout():
    """A buffer that is both, and one agent a rank: compiled."""
    def body(rank):
        return [f"%to = ccl.channel to {1 - rank} slots 2", f"%from = ccl.channel from {1 - rank} slots 2",
                *agent("block", 0, f"ccl.transfer from %x[{2 * rank}] to %to x 2",
                       f"ccl.transfer from %from to %x[{2 - 2 * rank}] x 2")]
    return module("one", "all_gather", 2, [("x", "inout", 4)], body)


def long():
    """600 instructions of one agent a rank: no code either."""
    def body(rank):
        return [f"%to = ccl.channel to {1 - rank} slots 2", f"%from = ccl.channel from {1 - rank} slots 2",
                *agent("block", 4, *(i for c in range(300) for i in (
                    f"ccl.transfer from %in[{c}] to %to", f"ccl.transfer from %from to %out[{c}]")))]
    return module("long", "permute, to = [1, 0]", 2, [("in", "in", 300), ("out", "out", 300)], body)


def staged(sends, receives, between=(), extra=()):
    """A block that sends `sends` (chunk, peer), then one that receives: (op, chunk, peer)."""
    lines = [f"%to{p} = ccl.channel to {p} slots 1" for _, p in sends]
    lines += [f"%from{p} = ccl.channel from {p} slots 1" for _, _, p in receives]
    lines += extra
    lines += agent("block", 0, *(f"ccl.transfer from %x[{c}] to %to{p}" for c, p in sends),
                   *(["ccl.signal %here"] if between else []))
    add = lambda c: f"reduce from %from{{}}, %x[{c}] to %x[{c}]"
    return lines + agent(
        "block", 1, *between,
        *("ccl.transfer " + (add(c).format(p) if op == "+" else f"from %from{p} to %x[{c}]")
          for op, c, p in receives))


def inout(collective, ranks=3, root=1):
    """The collectives in one buffer."""
    def body(me):
        others = [r for r in range(ranks) if r != me]
        here = [f"%here = ccl.channel to {me} tag 9", f"%there = ccl.channel from {me} tag 9"]
        if collective == "all_gather":
            return staged([(me, r) for r in others], [("=", r, r) for r in others])
        if collective == "reduce_scatter":
            return staged([(r, r) for r in others], [("+", me, r) for r in others])
        if collective == "gather":
            return staged([(me, root)] if me != root else [],
                          [("=", r, r) for r in others] if me == root else [])
        if collective == "scatter":
            return staged([(r, r) for r in others] if me == root else [],
                          [("=", me, root)] if me != root else [])
        if collective == "broadcast":
            return staged([(0, r) for r in others] if me == root else [],
                          [("=", 0, root)] if me != root else [])
        if collective == "reduce":
            return staged([(0, root)] if me != root else [],
                          [("+", 0, r) for r in others] if me == root else [])
        if collective == "all_to_all":
            return staged([(r, r) for r in others], [("=", r, r) for r in others],
                          ["ccl.wait %there"], here)
        if collective == "permute":
            return staged([(0, (me + 1) % ranks)], [("=", 0, (me - 1) % ranks)],
                          ["ccl.wait %there"], here)
        if collective == "custom": # a neighbour's input beside one's own
            return staged([(0, (me + 1) % ranks)], [("=", 1, (me - 1) % ranks)])
        # all_reduce: everybody adds up one chunk and hands it out.
        lines = [f"%to{r} = ccl.channel to {r} slots 1" for r in others]
        lines += [f"%from{r} = ccl.channel from {r} slots 1" for r in others]
        lines += [f"%back{r} = ccl.channel to {r} tag 1 slots 1" for r in others]
        lines += [f"%sum{r} = ccl.channel from {r} tag 1 slots 1" for r in others]
        lines += agent("block", 0, *(f"ccl.transfer from %x[{r}] to %to{r}" for r in others))
        lines += agent("block", 1, *(f"ccl.transfer from %sum{r} to %x[{r}]" for r in others))
        sources = ", ".join([f"%x[{me}]"] + [f"%from{r}" for r in others])
        return lines + agent("proxy", 0, f"ccl.transfer reduce from {sources} to %x[{me}], "
                             + ", ".join(f"%back{r}" for r in others))
    wide = {"broadcast": 1, "reduce": 1, "permute": 1, "custom": 2}
    words = {"permute": "permute, to = [1, 2, 0]",
             "custom": "custom, in = 1, out = 2, rows = ["
             + ", ".join(f"{r}, 0, {r}, 0, {r}, 1, {(r - 1) % 3}, 0" for r in range(3)) + "]",
             "broadcast": "broadcast, root = 1", "reduce": "reduce, sum, root = 1",
             "gather": "gather, root = 1", "scatter": "scatter, root = 1"}
    contract = words.get(collective, collective + (", sum" if "reduce" in collective else ""))
    return module("inout", contract, ranks, [("x", "inout", wide.get(collective, ranks))], body)


PROGRAMS = {f.__name__: f for f in (many_channels, many_steps, chain, wide_sum, peers, proxies,
                                    proxies_of_some, proxy_adds, exit_barrier, batch_barrier,
                                    one_batch_barrier, one_inout, long)}
if __name__ == "__main__":
    name, _, collective = sys.argv[1].partition("-")
    print(inout(collective) if collective else PROGRAMS[name]())

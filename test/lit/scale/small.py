"""Judges `ccl compile --stats --json` of one rank of very many: fails unless the IR has
under 10,000 ops and the work on it took under a second (it takes some 30 ms)."""
import json
import sys

stats = json.loads(sys.stdin.read())
ops = max(stats["algorithm_ops"], stats["program_ops"])
ms = sum(stats[phase] for phase in ("read_ms", "specialize_ms", "prove_ms", "lower_ms"))
print(f"{stats['algorithm']}, rank {stats['rank']} of {stats['ranks']}: {ops} ops, {ms:.0f} ms")
sys.exit(0 if stats["rank"] is not None and 0 < ops < 10000 and ms < 1000 else 1)

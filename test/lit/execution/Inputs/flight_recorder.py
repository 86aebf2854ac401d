"""Checks what the flight recorder wrote.

    flight_recorder.py same FOLDER     FOLDER/trace_RANK unpickles to FOLDER/json/trace_RANK.json
    flight_recorder.py stopped FOLDER  only rank 2 of 4 left no file, and all others wait for it
"""
import json
import pathlib
import pickle
import sys


class Plain(pickle.Unpickler):
    """fr_trace reads with pickle.load; ours needs no class for it."""

    def find_class(self, module, name):
        raise AssertionError(f"the pickle asks for {module}.{name}")


def load_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


what, folder = sys.argv[1], pathlib.Path(sys.argv[2])
if what == "same":
    for rank in range(4):
        with open(folder / f"trace_{rank}", "rb") as file:
            dump = Plain(file).load()
            assert not file.read(), "bytes after the end"
        assert dump == load_json(folder / "json" / f"trace_{rank}.json"), f"rank {rank} differs"
        assert type(dump["entries"][0]["retired"]) is bool
        assert type(dump["entries"][0]["time_created_ns"]) is int
        assert type(dump["entries"][0]["duration_ms"]) is float
else:
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"trace_{rank}.json" for rank in (0, 1, 3)], names
    for name in names:
        dump = load_json(folder / name)
        (group,) = dump["pg_config"].values()
        assert group["ranks"] == "[0, 1, 2, 3]", group
        last = dump["entries"][-1]
        assert last["profiling_name"] == "nccl:all_reduce", last
        assert last["state"] == "scheduled" and last["retired"], last
        assert last["timeout_ms"] == 1000, last
        assert last["ccl_program"].startswith("ring (hash "), last
        assert last["ccl_waits_for"], last
print("fine")

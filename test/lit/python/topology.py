"""Topologies, bounds and simulations: what Python says is what the command says.

    python3 topology.py EXAMPLES SCRATCH
"""
import inspect
import json
import os
import pathlib
import subprocess
import sys
import threading
import unittest

import ccl

EXAMPLES, SCRATCH = (pathlib.Path(each) for each in sys.argv[1:3])
SMI = """\tGPU0\tGPU1\tGPU2\tGPU3
GPU0\t X \tNV4\tNV4\tNV4
GPU1\tNV4\t X \tNV4\tNV4
GPU2\tNV4\tNV4\t X \tNV4
GPU3\tNV4\tNV4\tNV4\t X
"""
EDGES = """3 4 6
0 3 25
1 3 25
2 3 12.5
3 0 25
3 1 25
3 2 25
"""


def command(*words):
    """What the command says in JSON; numbers stay as they are written."""
    words = ["ccl", *(str(word) for word in words), "--json"]
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode:
        raise AssertionError(f"{words}: {result.stdout}{result.stderr}")
    return [json.loads(line, parse_float=str, parse_int=str)
            for line in result.stdout.splitlines()]


def written(file, text):
    path = SCRATCH / file
    path.write_text(text)
    return path


def real(number):
    return f"{number:.6g}"


class Same(unittest.TestCase):
    """As the command, to the last digit that it prints."""

    MACHINES = [
        (["dgx-h100:2"], {"source": "dgx-h100:2"}),
        (["torus:4x4"], {"source": "torus:4x4"}),
        (["dgx-a100", "--rates", "effective"], {"source": "dgx-a100", "rates": "effective"}),
        (["FILE", "--gpu", "A100", "--pcie", 4], {"gpu": "A100", "pcie": 4}),
        (["FILE", "--gpu", "H100"], {"gpu": "H100"}),
        (["EDGES"], {"source": "EDGES"}),
    ]

    def machines(self):
        smi, edges = written("box.smi", SMI), written("net.txt", EDGES)
        for words, options in self.MACHINES:
            words = [{"FILE": smi, "EDGES": edges}.get(word, word) for word in words]
            if options.get("source", "EDGES") == "EDGES":
                options = {**options, "source": edges if words[0] == edges else smi}
            yield words, ccl.topology(**options)

    def test_topologies(self):
        for words, machine in self.machines():
            [said] = command("topo", *words)
            with self.subTest(words=words):
                self.assertEqual(
                    [said[key] for key in ("name", "what", "ranks", "switches", "links")],
                    [machine.name, machine.what, str(machine.ranks), str(len(machine.switches)),
                     str(len(machine.links))])
                self.assertEqual(said["notes"], machine.notes)
                self.assertEqual(said.get("rates"), machine.rates)
                self.assertEqual(said["missing"], machine.missing)

    def test_bounds(self):
        for words, machine in self.machines():
            root = machine.ranks - 1
            [said] = command("topo", *words, "--bounds", "--bytes", "3M", "--root", root)
            with self.subTest(words=words):
                bounds = machine.bounds(bytes=3 << 20, root=root)
                self.assertEqual(set(said["bounds"]), set(bounds))
                for name, wanted in said["bounds"].items():
                    found = machine.bound(name, bytes=3 << 20, root=root)
                    self.assertEqual(repr(found), repr(bounds[name]))
                    self.assertEqual(wanted, self.as_json(found))
                    self.assertEqual(found.time(3 << 20), found.time_us)

    @staticmethod
    def as_json(bound):
        row = {} if bound.num is None else {"num": str(bound.num), "den": str(bound.den)}
        row.update(algbw_GBps=real(bound.algbw), attained_GBps=real(bound.attained),
                   exact=bound.exact, time_us=real(bound.time_us))
        if bound.cut:
            row["cut"] = list(bound.cut)
        return {**row, "certificate": bound.certificate}

    def same(self, words, simulations):
        rows = command("sim", *words)
        self.assertEqual(len(rows), len(simulations))
        for row, found in zip(rows, simulations):
            mine = {
                "collective": found.collective, "algorithm": found.program,
                "bytes": str(found.bytes), "count": str(found.count),
                "micro_batches": str(found.micro_batches), "model": found.model,
                "time_us": real(found.time_us), "algbw_GBps": real(found.algbw),
                "busbw_GBps": real(found.busbw), "messages": str(found.messages),
                "events": str(found.events),
                "links": [{"link": str(use.link), "src": use.source, "dst": use.destination,
                           "bytes": real(use.bytes), "busy_us": real(use.busy_us)}
                          for use in found.links]}
            if found.ratio is not None:
                mine.update(bound_us=real(found.bound_us), ratio=real(found.ratio),
                            bound_algbw_GBps=real(found.bound_algbw),
                            certificate=found.certificate)
            self.assertEqual({key: row.get(key) for key in mine}, mine)
            self.assertEqual("bound_us" in row, found.ratio is not None)

    def test_models_and_options(self):
        machine = ccl.topology("dgx-h100:2")
        program = {"algorithm": "hierarchical", "grid": (2, 8)}
        words = ["--collective", "all_reduce", "--algorithm", "hierarchical", "--grid", "2x8",
                 "--topology", "dgx-h100:2", "--bytes", "1M"]
        for more, options in [
                ([], {}),
                (["--model", "taccl"], {"model": "taccl"}),
                (["--model", "teccl", "--epoch", 0.5], {"model": "teccl", "epoch": 0.5}),
                (["--model", "nccl-tree:ll"], {"model": "nccl-tree:ll"}),
                (["--fair"], {"sharing": "fair"}),
                (["--micro-batches", 3, "--batch-order", "agent"],
                 {"micro_batches": 3, "batch_order": "agent"}),
                (["--micro-batches", 3, "--batch-order", "barrier", "--sync", 2],
                 {"micro_batches": 3, "batch_order": "barrier", "sync": 2}),
                (["--launch", 7.25, "--overhead", 0.125, "--lane", 300],
                 {"launch": 7.25, "overhead": 0.125, "lane": 300}),
                (["--no-bound"], {"bound": False}),
                (["--type", "half", "--slots", 4, "--via", "staged"],
                 {"type": "f16", "slots": 4, "via": "staged"})]:
            with self.subTest(more=more):
                self.same(words + more,
                          [machine.simulate("all_reduce", 1 << 20, **program, **options)])

    def test_sizes(self):
        """Also such as no element, or not all of a shard, is left of."""
        machine = ccl.topology("ring:8")
        sizes = [0, 1, 100, 4097, 1 << 20]
        self.same(["--collective", "all_gather", "--algorithm", "ring", "--topology", "ring:8",
                   "--bytes", ",".join(map(str, sizes))],
                  machine.simulate("all_gather", sizes, algorithm="ring"))
        self.assertEqual(machine.simulate("all_gather", [], algorithm="ring"), [])

    def test_uneven(self):
        """Such programs as take uneven shards as they are, and such as are padded."""
        for name, collective, algorithm, counts in [
                ("full:4", "all_gather", "ring", [1000, 0, 70000, 3]),
                ("full:4", "all_to_all", "pairwise", list(range(0, 1600, 100))),
                ("full:4", "reduce_scatter", "ring", [5])]:
            words = ["--collective", collective, "--algorithm", algorithm, "--topology", name,
                     "--uneven", ",".join(map(str, counts))]
            with self.subTest(words=words):
                found = ccl.topology(name).simulate(collective, counts=counts, algorithm=algorithm)
                self.assertIsNone(found.bound_us)
                self.same(words, [found])

    def test_curves(self):
        file = written("curve.csv", "size,time_us\n1024,3\n65536,70\n1048576,1100\n")
        for kind in ("any", "0-1"):
            self.same(["--collective", "all_gather", "--algorithm", "ring", "--topology", "ring:4",
                       "--bytes", "1M", "--curve", f"{kind}={file}"],
                      [ccl.topology("ring:4").simulate("all_gather", 1 << 20, algorithm="ring",
                                                       curves=[f"{kind}={file}"])])

    def test_circuits(self):
        """A fabric that changes its links for the program, and the limit of such."""
        words = ["--collective", "all_to_all", "--algorithm", "pairwise", "--topology",
                 "optical-rings:8", "--bytes", "1M"]
        found = ccl.topology("optical-rings:8").simulate("all_to_all", 1 << 20,
                                                         algorithm="pairwise")
        self.same(words, [found])
        self.assertGreater(found.idle["change"], 0)

    def test_nccl(self):
        for name, collective, options, given in [
                ("dgx-h100:2", "all_reduce", ["--rates", "effective"], {"rates": "effective"}),
                ("dgx-a100", "all_gather", [], {}), ("dgx-h100", "all_to_all", [], {})]:
            words = ["sim", "--collective", collective, "--topology", name, "--bytes", "64M",
                     "--beside", "nccl", "--no-bound", *options]
            if name == "dgx-h100:2":
                words += ["--algorithm", "hierarchical", "--grid", "2x8"]
            [said] = command(*words)
            found = ccl.topology(name, **given).nccl_estimates(collective, 64 << 20)
            with self.subTest(name=name, collective=collective):
                self.assertEqual(
                    said["nccl"],
                    [{"algorithm": each.algorithm, "protocol": each.protocol,
                      "time_us": real(each.time_us), "algbw_GBps": real(each.algbw),
                      "picked": each.taken} for each in found])
                self.assertEqual(sum(each.taken for each in found), bool(found))

    def test_programs(self):
        """Whatever way one comes in, it is the same."""
        path = EXAMPLES / "two_shot_all_reduce.mlir"
        machine = ccl.topology("full:4")
        words = ["--topology", "full:4", "--bytes", "1M", path]
        compiled = ccl.compile(path, ranks=4)
        for program in (path, str(path), path.read_text(), compiled):
            self.same(words, [machine.simulate(program, 1 << 20)])
        generated = ccl.generate("reduce", ranks=4, root=2, type="f64")
        self.same(["--topology", "full:4", "--bytes", "1M", "--collective", "reduce", "-r", 2,
                   "--type", "double"], [machine.simulate(generated, 1 << 20)])

    def test_files_of_other_systems(self):
        path = SCRATCH / "ring.xml"
        subprocess.run(["ccl", "convert", EXAMPLES / "ring_all_reduce.mlir", "-n", "4", "-o", path],
                       check=True, capture_output=True)
        self.same(["--topology", "ring:4", "--bytes", "1M", path],
                  [ccl.topology("ring:4").simulate(path, 1 << 20)])

    def test_built(self):
        """What was built is what its text is; built in place, so through no slots."""
        a = gather(4)
        self.same(["--topology", "full:4", "--bytes", "1M", written("built.mlir", a.text())],
                  [ccl.topology("full:4").simulate(a, 1 << 20)])

    def test_files(self):
        machine = ccl.topology("dgx-h100:2")
        words = ["--collective", "all_reduce", "--algorithm", "hierarchical", "--grid", "2x8",
                 "--topology", "dgx-h100:2", "--bytes", "1M", "--html", SCRATCH / "theirs.html",
                 "--trace", SCRATCH / "theirs.json"]
        found = machine.simulate("all_reduce", 1 << 20, algorithm="hierarchical", grid=(2, 8))
        self.same(words, [found])
        found.write_html(SCRATCH / "mine.html")
        found.write_trace(str(SCRATCH / "mine.json"))
        for suffix, text in (("html", found.html()), ("json", found.trace())):
            mine, theirs = SCRATCH / f"mine.{suffix}", SCRATCH / f"theirs.{suffix}"
            self.assertTrue(mine.read_bytes() == theirs.read_bytes(), suffix)
            self.assertTrue(mine.read_text() == text, suffix)


def gather(ranks):
    a = ccl.Algorithm("star", ccl.contract.all_gather(), ranks=ranks)
    x = a.inout(chunks=ranks)
    for source in range(ranks):
        for into in range(ranks):
            if into != source:
                a.copy(x[source, source], x[into, source])
    return a


class Machines(unittest.TestCase):
    def test_parts(self):
        machine = ccl.topology("dgx-h100:2")
        self.assertEqual(repr(machine), "<ccl.Topology dgx-h100: 16 ranks, 26 switches, 96 links>")
        self.assertEqual(machine.axes, {"node": 2, "gpu": 8})
        first = machine.links[0]
        self.assertEqual((first.source, machine.node_name(first.destination), first.bandwidth),
                         (0, "node0.nvswitch", 450))
        self.assertEqual((machine.switches[0].kind, machine.switches[0].multicast),
                         ("switch", True))
        self.assertEqual(machine.node_name(3), "rank 3")

    def test_names(self):
        rows = {name: (size, what) for name, size, what in ccl.topologies()}
        self.assertEqual(rows["dgx-h100"][0], "[boxes]")
        self.assertIn("H100", rows["dgx-h100"][1])
        self.assertIn("torus", rows)

    def test_text_again(self):
        machine = ccl.topology("dgx-h100:2")
        again = ccl.topology(machine.text())
        self.assertEqual((again.links, again.switches, again.axes),
                         (machine.links, machine.switches, machine.axes))
        self.assertEqual(again.bound("all_to_all").algbw, machine.bound("all_to_all").algbw)

    def test_joined(self):
        with self.assertRaisesRegex(ccl.ArgumentError, "NIC"):  # it has none
            ccl.topology(SMI, nodes=2, gpu="A100")
        with self.assertRaisesRegex(ccl.ArgumentError, "nowhere.txt"):
            ccl.topology(SMI, nodes=2, join="graph:nowhere.txt", gpu="A100")

    def test_symbols(self):
        ops = ["\n".join(ccl.topology(name).text().splitlines()[1:-1])
               for name in ("ring:3", "ring:4")]
        two = "\n".join([ops[0], ops[1].replace("@ring", "@other"), ""])
        self.assertEqual(ccl.topology(two, symbol="other").ranks, 4)
        with self.assertRaisesRegex(ccl.ArgumentError, "@ring, @other: name one by `symbol`"):
            ccl.topology(two)

    def test_detect(self):
        try:
            machine = ccl.topology(detect=True)
        except ccl.ArgumentError as error:  # a single core has no links
            self.assertIn("names too little", str(error))
        else:
            self.assertEqual(machine.label, "this machine")
            self.assertGreaterEqual(machine.ranks, 1)

    def test_remarks(self):
        """Warnings about a file do not stop it."""
        system = ('<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel" '
                  'familyid="6" modelid="143"><odd/>' +
                  "".join(f'<pci busid="0000:{bus}:00.0" class="0x030200" link_speed="16.0 GT/s '
                          f'PCIe" link_width="16"><gpu dev="{i}" sm="90" rank="{i}"/></pci>'
                          for i, bus in enumerate(("17", "3d"))) + "</cpu></system>")
        machine = ccl.topology(written("odd.xml", system))
        self.assertEqual(machine.ranks, 2)
        self.assertRegex(machine.remarks, r"odd\.xml:1:\d+: warning: ")


class Simulations(unittest.TestCase):
    def setUp(self):
        self.machine = ccl.topology("full:4")
        self.found = self.machine.simulate(gather(4), 4 << 20, overhead=1)

    def test_agents_add_up(self):
        self.assertEqual([each.rank for each in self.found.agents], [0, 1, 2, 3])
        for each in self.found.agents:
            parts = (each.launch_us, each.busy_us, each.link_us, each.slot_us, each.data_us,
                     each.signal_us, each.batch_us)
            self.assertAlmostEqual(sum(parts), each.end_us, places=6)
        self.assertAlmostEqual(self.found.idle["data"],
                               sum(each.data_us for each in self.found.agents))

    def test_critical_path(self):
        path = self.found.critical_path
        self.assertEqual((path[0].begin_us, path[-1].end_us), (0, self.found.time_us))
        for before, after in zip(path, path[1:]):
            self.assertAlmostEqual(before.end_us, after.begin_us)
        self.assertIn("flight", {part.kind for part in path} | {"flight"})
        for part in path:
            self.assertIn(part.kind, ("launch", "run", "flight", "wait"))
            self.assertEqual(part.peer is None, part.kind != "flight")
            self.assertTrue(part.what)

    def test_closed_form(self):
        """A rank sends a MiB to each of three others over a link of 1 GB/s, 1 us before each."""
        one = self.machine.simulate(gather(4), 4 << 20)
        self.assertAlmostEqual(one.ratio * one.time_us, one.bound_us)
        self.assertGreaterEqual(one.time_us, (1 << 20) / 1e3)
        for use in one.links:
            self.assertAlmostEqual(use.busy_us, use.bytes / 1e3)
        self.assertEqual(sum(use.bytes for use in one.links), 12 << 20)

    def test_one_topology_in_threads(self):
        """Bounds and proofs at the same time, of one topology and of one program."""
        program = ccl.generate("all_to_all", ranks=4)
        wanted = (repr(self.machine.bounds()),
                  self.machine.simulate(program, 1 << 16).critical_path)
        seen, shared = [], ccl.topology("full:4")
        threads = [threading.Thread(target=lambda: seen.append(
            (repr(shared.bounds()), shared.simulate(program, 1 << 16).critical_path)))
            for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(seen, [wanted] * 4)

    def test_threads(self):
        """One simulation, asked by several threads at a time."""
        seen = []
        threads = [threading.Thread(target=lambda: seen.append(self.found.trace()))
                   for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(len(seen), 4)
        self.assertTrue(all(each == seen[0] for each in seen))

    def test_outlives(self):
        """Parents may go first."""
        trace = self.found.trace()
        found, self.found, self.machine = self.found, None, None
        self.assertEqual(found.trace(), trace)


class Errors(unittest.TestCase):
    def test_texts(self):
        """With file, line and column."""
        odd = written("odd.smi", SMI.replace("GPU1\tNV4", "GPU1\tNV2"))
        with self.assertRaisesRegex(ccl.ProgramError, rf"^{odd}:3:6: error: .*symmetric"):
            ccl.topology(odd)
        with self.assertRaisesRegex(ccl.ProgramError, r"^my box:3:6: error: "):
            ccl.topology(odd.read_text(), label="my box")
        with self.assertRaisesRegex(ccl.ProgramError, r"^<text>:1:1: error: "):
            ccl.topology("nonsense\n")
        cut = written("cut.mlir", ccl.topology("ring:3").text().replace("}", "", 1))
        with self.assertRaisesRegex(ccl.ProgramError, rf"^{cut}:\d+:\d+: error: "):
            ccl.topology(cut)

    def test_programs(self):
        machine = ccl.topology("full:4")
        a = ccl.Algorithm("twice", ccl.contract.reduce("sum", root=0), ranks=4)
        x = a.inout(1)
        for r in (1, 2, 3, 3):
            a.reduce(x[r, 0], x[0, 0])
        at = inspect.currentframe().f_lineno - 1
        with self.assertRaisesRegex(ccl.ProgramError, f"^{__file__}:{at}:.*counted twice"):
            machine.simulate(a, 100)
        with self.assertRaisesRegex(ccl.ProgramError, r"^my\.mlir:1:1: error: "):
            machine.simulate("nonsense in it", 100, label="my.mlir")

    def test_no_way(self):
        """At the line that sends where there is no way, each time it is asked."""
        machine = ccl.topology("ring:4")
        a = gather(4)
        for _ in range(2):
            with self.assertRaises(ccl.ProgramError) as caught:
                machine.simulate(a, 1 << 20)
            text = str(caught.exception)
            self.assertRegex(text, f"^{__file__}:[0-9]+:[0-9]+: error: ")
            self.assertIn("leads through other ranks", text)
            self.assertEqual(text.count("from rank 0 to rank 2"), 1)

    def test_forbidden(self):
        rest = ccl.topology("full:4", forbid=["1-3", 0])
        self.assertEqual((rest.label, rest.ranks), ("full:4 without 1-3, 0", 3))
        self.assertEqual(sorted((link.source, link.destination) for link in rest.links),
                         [(0, 1), (1, 0), (1, 2), (2, 1)])
        with self.assertRaisesRegex(ccl.ArgumentError, "rank 0 cannot reach"):
            ccl.topology("ring:5", forbid=[1, 4])
        self.assertEqual(ccl.topology("full:16", forbid="12").label, "full:16 without 12")
        self.assertEqual(ccl.topology("full:16", forbid=12).ranks, 15)

    def test_arguments(self):
        machine, odd = ccl.topology("full:4"), SCRATCH / "absent"
        compiled = ccl.generate("all_reduce", ranks=3)
        four = ccl.generate("all_reduce", ranks=4)
        for error, text, call in [
                (ValueError, "^source: needs", lambda: ccl.topology()),
                (ValueError, "^source: needs", lambda: ccl.topology("ring:4", detect=True)),
                (TypeError, "^source: 4 is", lambda: ccl.topology(4)),
                (ValueError, "^rates: 'best'", lambda: ccl.topology("ring:4", rates="best")),
                (TypeError, "^nic: 'fast'", lambda: ccl.topology("ring:4", nic="fast")),
                (TypeError, "^join: 3", lambda: ccl.topology("ring:4", join=3)),
                (ccl.ArgumentError, "^nodes: 0", lambda: ccl.topology("ring:4", nodes=0)),
                (ccl.ArgumentError, "^nodes .*only of the description of one machine",
                 lambda: ccl.topology("ring:4", nodes=2)),
                (ccl.ArgumentError, "^pcie: .* 7", lambda: ccl.topology("ring:4", pcie=7)),
                (ccl.ArgumentError, "^nic: nan", lambda: ccl.topology("ring:4", nic=float("nan"))),
                (ccl.ArgumentError, "torus:0x4", lambda: ccl.topology("torus:0x4")),
                (ccl.ArgumentError, "needs a name", lambda: ccl.topology("")),
                (ccl.ArgumentError, f"^cannot read '{odd}'", lambda: ccl.topology(odd)),
                (ccl.ArgumentError, "too little", lambda: ccl.topology(
                    "GPU 0: H100\n\t Link 0: 25 GB/s\nGPU 1: H100\n\t Link 0: 25 GB/s\n")),
                (ValueError, "^node: 4 ", lambda: machine.node_name(4)),
                (ValueError, "^collective: there is no 'all'", lambda: machine.bound("all")),
                (ccl.ArgumentError, "no bound of permute", lambda: machine.bound("permute")),
                (ccl.ArgumentError, "one rank", lambda: ccl.topology("tpu-v4:1x1x1").bound(
                    "all_reduce")),
                (ccl.ArgumentError, "^root: 4 ", lambda: machine.bound("reduce", root=4)),
                (ccl.ArgumentError, "^gap: 2", lambda: machine.bound("reduce", gap=2)),
                (ValueError, "^time_limit: 0", lambda: machine.bound("reduce", time_limit=0)),
                (ValueError, "^bytes: -1", lambda: machine.bound("reduce", bytes=-1)),
                (ValueError, "^bytes: .*63 bits",
                 lambda: machine.bound("reduce", bytes=1 << 63)),
                (TypeError, "^bytes: '1M'", lambda: machine.simulate("all_reduce", "1M")),
                (TypeError, r"^bytes\[1\]", lambda: machine.simulate("all_reduce", [1, None])),
                (ccl.ArgumentError, "^bytes: -1", lambda: machine.simulate("all_reduce", -1)),
                (ValueError, "^collective: there is no 'all'", lambda: machine.simulate("all", 1)),
                (TypeError, "^program: 5", lambda: machine.simulate(5, 1)),
                (ValueError, "^type: <ccl.Program", lambda: machine.simulate(four, 1, type="f64")),
                (ValueError, "^root: <ccl.Algo", lambda: machine.simulate(gather(4), 1, root=1)),
                (ValueError, "^sizes: ", lambda: machine.simulate("reduce", 1, sizes={"n": 4})),
                (ccl.ArgumentError, "is for 3 ranks, the topology has 4",
                 lambda: machine.simulate(compiled, 1)),
                (ccl.ArgumentError, "nothing called 'rng'",
                 lambda: machine.simulate("all_reduce", 1, algorithm="rng")),
                (ccl.ArgumentError, "^model: 'fast' is none of ccl, taccl",
                 lambda: machine.simulate("all_reduce", 1, model="fast")),
                (ValueError, "^sharing: 'no'",
                 lambda: machine.simulate("all_reduce", 1, sharing="no")),
                (ValueError, "^batch_order: 'no'",
                 lambda: machine.simulate("all_reduce", 1, batch_order="no")),
                (ValueError, "^micro_batches: 0",
                 lambda: machine.simulate("all_reduce", 1, micro_batches=0)),
                (ccl.ArgumentError, "^sync: nan",
                 lambda: machine.simulate("all_reduce", 1, sync=float("nan"))),
                (ccl.ArgumentError, "^cost model ccl: launch is inf",
                 lambda: machine.simulate("all_reduce", 1, launch=float("inf"))),
                (ValueError, "^bytes: needs a size", lambda: machine.simulate("all_reduce")),
                (ValueError, "^bytes: needs a size",
                 lambda: machine.simulate("all_gather", 1, counts=[1])),
                (ccl.ArgumentError, "^counts: .* no uneven form",
                 lambda: machine.simulate("all_reduce", counts=[1])),
                (ccl.ArgumentError, "^counts: there are none",
                 lambda: machine.simulate("all_gather", counts=[])),
                (ccl.ArgumentError, "^counts: -1",
                 lambda: machine.simulate("all_gather", counts=[-1])),
                (ccl.ArgumentError, "^counts: there are 5 counts, but all_gather has 4 shards",
                 lambda: machine.simulate("all_gather", counts=[1, 2, 3, 4, 5])),
                (TypeError, "^gap: None", lambda: machine.bound("reduce", gap=None)),
                (ccl.ArgumentError, "micro-batches are outside",
                 lambda: machine.simulate("all_reduce", 1, micro_batches=1 << 31)),
                (ccl.ArgumentError, "more than can be counted|micro-batches",
                 lambda: machine.simulate("all_reduce", (1 << 63) - 1)),
                (ccl.ArgumentError, "^counts: .* too many",
                 lambda: machine.simulate("all_gather", counts=[1 << 61])),
                (TypeError, "^curves: 'any=x'",
                 lambda: machine.simulate("all_gather", 1, curves="any=x")),
                (ccl.ArgumentError, "^curves: .*absent",
                 lambda: machine.simulate("all_gather", 1, curves=[f"any={odd}"])),
                (ccl.ArgumentError, "^lane: -1", lambda: machine.simulate("all_reduce", 1, lane=-1)),
                (TypeError, "^sync: 'x'", lambda: machine.simulate("all_reduce", 1, sync="x")),
        ]:
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                call()

    def test_files(self):
        found = ccl.topology("full:4").simulate("all_reduce", 1000)
        for write in (found.write_html, found.write_trace):
            with self.assertRaisesRegex(ccl.MachineError, "nowhere"):
                write(SCRATCH / "nowhere" / "page")
            with self.assertRaisesRegex(ccl.ArgumentError, "path: is empty"):
                write("")
            with self.assertRaisesRegex(ccl.ArgumentError, "path: has a zero byte"):
                write(f"{SCRATCH}/half\0page")
            self.assertFalse((SCRATCH / "half").exists())
        path = written("half.txt", "2 2 2\n0 1 1\n1 0 1\n")
        other = f"{path}\0.mlir"
        for call in (lambda: ccl.topology(other),
                     lambda: ccl.topology("full:2").simulate(other, 1)):
            with self.assertRaisesRegex(ccl.ArgumentError, "its path has a zero byte"):
                call()
        there = os.getcwd()
        os.chdir(SCRATCH)
        self.addCleanup(os.chdir, there)
        found.write_trace("-")  # a file here, not stdout
        self.assertEqual((SCRATCH / "-").read_text(), found.trace())


if __name__ == "__main__":
    SCRATCH.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1])

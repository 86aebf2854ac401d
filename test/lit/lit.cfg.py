# How lit runs our tests. lit.site.cfg.py in the build tree sets the paths (ccl_*).
import ctypes
import fcntl
import glob
import importlib.util
import os
import platform
import shutil
import subprocess

import lit.formats

config.name = "ccl"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
# Inputs of tests, not tests.
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)

# What tests write (%t, the code cache) must not meet what another run writes: who comes while
# another is here takes a folder of its own. What a finished run left goes.
config.test_exec_root = os.path.join(config.ccl_build, "test", "lit")
os.makedirs(config.test_exec_root, exist_ok=True)
for old in glob.glob(os.path.join(config.test_exec_root, "run-*")):
    if not os.path.exists("/proc/" + old.rpartition("-")[2]):
        shutil.rmtree(old, ignore_errors=True)
try:
    # Held until this process ends.
    fcntl.flock(os.open(os.path.join(config.test_exec_root, "lock"), os.O_CREAT | os.O_RDWR, 0o600),
                fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    config.test_exec_root = os.path.join(config.test_exec_root, f"run-{os.getpid()}")

# The sanitizers make everything slower.
lit_config.maxIndividualTestTime = 360 if config.ccl_sanitize else 120

# Nobody's settings from outside, and no object code of an earlier build.
cache = os.path.join(config.test_exec_root, "cache")
shutil.rmtree(cache, ignore_errors=True)
os.makedirs(config.test_exec_root, exist_ok=True)
os.mkdir(cache, mode=0o700)
for name in list(config.environment):
    if name.startswith("CCL_"):
        del config.environment[name]
config.environment["CCL_CACHE_DIR"] = cache
config.environment["HOME"] = config.test_exec_root
config.environment["LC_ALL"] = "C.UTF-8"
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.ccl_build, "bin"), config.llvm_bin, os.environ["PATH"]])

config.substitutions.append(("%root", config.ccl_root))
config.substitutions.append(("%build", config.ccl_build))
config.substitutions.append(("%examples", os.path.join(config.ccl_root, "examples")))
config.substitutions.append(("%zero-wrong", f"{config.python} {config.test_source_root}/zero_wrong.py"))
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%cxx", config.ccl_cxx))

# The Python package, if it could be built; %ccl-python finds it.
config.substitutions.append(
    ("%ccl-python", f"env PYTHONPATH={config.ccl_build}/python {config.python}"))
if glob.glob(os.path.join(config.ccl_build, "python", "ccl", "_ccl*.so")):
    config.available_features.add("python")
if subprocess.run([config.python, "-c", "import numpy"], capture_output=True).returncode == 0:
    config.available_features.add("numpy")

if platform.machine() in ("x86_64", "AMD64"):
    config.available_features.add("x86")
# A collection of programs and topologies of other projects, if it lies beside us.
corpus = os.path.join(os.path.dirname(config.ccl_root), "shared", "corpus")
if os.path.isdir(corpus):
    config.available_features.add("corpus")
    config.substitutions.append(("%corpus", corpus))
# The libFuzzer targets, if the preset `fuzz` was built.
fuzz = os.path.join(os.path.dirname(config.ccl_build), "fuzz")
if not config.ccl_sanitize and os.path.exists(os.path.join(fuzz, "bin", "fuzz-mlir")):
    config.available_features.add("fuzz")
    config.substitutions.append(("%fuzz", fuzz))
if shutil.which("pkg-config"):
    config.available_features.add("pkg-config")
# NVIDIA's run-time compiler, where codegen/cuda/Nvrtc.cpp looks for it, too.
nvrtc = [f"libnvrtc.so{version}" for version in (".13", ".12", ".11.2", "")]
for library in nvrtc + [f"/usr/local/cuda/{folder}/{name}" for folder in ("lib64", "lib")
                        for name in nvrtc]:
    try:
        ctypes.CDLL(library)
        config.available_features.add("nvrtc")
        break
    except OSError:
        pass
if config.ccl_faults == "ON":
    config.available_features.add("faults")
# Nothing needs it; whoever has it checks that its tool reads what we write.
torch = importlib.util.find_spec("torch")
if torch and torch.origin and os.path.exists(os.path.join(os.path.dirname(torch.origin), "distributed",
                                         "flight_recorder", "fr_trace.py")):
    config.available_features.add("torch")
    if "PYTHONPATH" in os.environ: # it may be there that we found it
        config.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
if shutil.which("clang-format-19"):
    config.available_features.add("clang-format")
if shutil.which("mpicc.openmpi") or shutil.which("mpicc.mpich"):
    config.available_features.add("mpi")
config.available_features.add(
    {"": "plain", "address": "asan", "thread": "tsan"}[config.ccl_sanitize])

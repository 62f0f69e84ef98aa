"""python3 peers.py [--folder DIR] [--rows 1,2,4,8,16] [--only TEXT] [--seconds N] [--out FILE]
    [--dry]

Our kernels, in the variants that plans take, beside those that come with PyTorch and Triton, on one
GPU. All contenders at a shape are captured in CUDA graphs of one process, of as many nodes, which
go round over the same copies of the inputs (256 MB or more, so that weights are cold), and are
replayed in turn: two blocks of 15 replays each; us is the median of the 30 over the nodes.
Nothing is timed whose output was not looked at: ours must agree with a formula in PyTorch, a
peer's be finite. A peer that fails is a line of the table, not its end; where it takes the process
with it, or hangs, another process goes on. Peers that search for long come last.
"""
import argparse
import concurrent.futures
import ctypes
import datetime
import json
import math
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import peers_shapes as shapes

COLD = 256 << 20  # bytes between two uses of one copy: four times the L2
COPIES = 256  # at most
GRAPH = 1200  # us that a graph of our kernel lasts, about
NODES = 600  # of a graph, at most; then to whole rounds of the copies
WARM = 40  # replays before the first block: 50 ms, so that clocks are up
REPLAYS = 15  # of a block
PATIENCE = 120  # seconds that a round may take, a search in it
NEAR = 1e-2  # |ours - formula| / |formula| over a whole output, at most
ARCH = "sm_90a"
SEED = 1

# ---- what lathe says ----


def lathe(folder, *words):
    done = subprocess.run([os.path.join(folder, "lathe"), *words], cwd="/", text=True,
                          capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"lathe {words[0]} ended with {done.returncode}")
    return done.stdout


class Image:
    """A kernel for a shape, as `lathe build --json` describes it, and its cubin."""

    def __init__(self, folder, cache, family, sizes):
        words = [f"{name}={size}" for name, size in sizes.items()]
        out = lathe(folder, "build", family, *words, "--planned", "--arch", ARCH, "--json")
        row = json.loads(out)["rows"][0]
        self.name, self.params, self.bytes = row["kernel"], row["params"], row["work"]["bytes"]
        self.launch = row["launch"]
        with open(os.path.join(cache, f"{row['kernel']}.{row['key'][:16]}"), "rb") as file:
            self.cubin = file.read()[-row["image_bytes"]:]
        if not self.cubin.startswith(b"\x7fELF"):
            raise RuntimeError(f"{self.name}: its cache entry does not end with an image")

    def packers(self):
        """The packers of its weights and their sizes; codes stand before their scales."""
        found = {}
        for p in self.params:
            if "layout" in p:
                n, k = p["extents"]
                found.setdefault("pack_" + p["layout"],
                                 {"N": n, "K": 2 * k if p["ctype"] == "e2m1x2" else k})
        return found

    def copies(self, cold):
        own = sum(p["bytes"] for p in self.params if p["name"] in cold)
        return max(2, min(COPIES, math.ceil(COLD / own)))

    def nodes(self, copies):
        nodes = min(NODES, math.ceil(GRAPH / (1.4 + self.bytes / 4.55e6)))
        return math.ceil(nodes / copies) * copies


def title(shape):
    return f"{shape[0]} {' x '.join(map(str, shape[1:]))}"


class Job:
    """A shape with so many rows, and what is built for it."""

    def __init__(self, folder, cache, shape, rows):
        self.family, self.rows = shapes.FAMILIES[shape[0]], rows
        self.sizes = shapes.sizes_of(shape[0], shape[1:], rows)
        self.title = title(shape)
        self.peers = shapes.peers_of(shape[0], rows)
        self.image = Image(folder, cache, shape[0], self.sizes)
        self.packers = {layout: Image(folder, cache, layout, sizes)
                        for layout, sizes in self.image.packers().items()}
        self.copies = self.image.copies(self.family.cold)
        self.nodes = self.image.nodes(self.copies)
        inputs = [p["name"] for p in self.image.params if p["kind"] == "in"]
        if sorted(inputs) != sorted(self.family.draws):
            raise RuntimeError(f"{self.title}: its inputs are {' '.join(inputs)}, which are drawn "
                               "otherwise (change peers_shapes.py)")

    def describe(self):
        launch = self.image.launch
        grid = " x ".join(map(str, launch["grid"]))
        args = ", ".join(f"{p['name']} {p['kind']} {p['bytes']}" for p in self.image.params)
        print(f"{self.image.name}: grid {grid}, block {launch['block']}, shared {launch['shared']},"
              f" image {len(self.image.cubin)} bytes\n  args: {args}\n  {self.image.bytes} bytes a "
              f"launch, {self.copies} copies, {self.nodes} nodes; packers: "
              f"{' '.join(p.name for p in self.packers.values()) or '-'}; peers: "
              f"{', '.join(self.peers)}")


# ---- on the GPU ----


class Kernel:
    """An image that is loaded, and launched on PyTorch's current stream."""
    driver = None

    def __init__(self, image):
        Kernel.driver = Kernel.driver or ctypes.CDLL("libcuda.so.1")
        self.image, self.module, self.function = image, ctypes.c_void_p(), ctypes.c_void_p()
        self.ask("cuModuleLoadData", ctypes.byref(self.module), image.cubin)
        self.ask("cuModuleGetFunction", ctypes.byref(self.function), self.module,
                 image.name.encode())
        if image.launch["shared"]:
            self.ask("cuFuncSetAttribute", self.function, 8, image.launch["shared"])  # the most
        self.ask("cuFuncSetAttribute", self.function, 14, 1)  # clusters of more than 8 blocks

    def ask(self, name, *args):
        result = getattr(self.driver, name)(*args)
        if result:
            raise RuntimeError(f"{self.image.name}: {name}: driver error {result}")

    def launch_on(self, tensors):
        """tensors: by the names of its parameters."""
        values = [ctypes.c_uint64(tensors[p["name"]].data_ptr()) for p in self.image.params]
        params = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        launch, stream = self.image.launch, torch.cuda.current_stream().cuda_stream
        self.ask("cuLaunchKernel", self.function, *launch["grid"], launch["block"], 1, 1,
                 launch["shared"], ctypes.c_void_p(stream), params, None)


def dtype_of(ctype):
    known = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
             "e4m3": torch.float8_e4m3fn, "i32": torch.int32, "u32": torch.int32}
    return known.get(ctype, torch.uint8)


def room(p):
    """An output begins as NaN, scratch as zeros."""
    code = 255 if p["kind"] == "out" else 0
    bytes_ = torch.full((p["bytes"],), code, device="cuda", dtype=torch.uint8)
    return bytes_.view(dtype_of(p["ctype"])).view(p["extents"])


def draw_copies(job):
    """The inputs of each copy, by name; those that are not cold are shared."""
    def draw(p):
        return shapes.draw(job.family.draws[p["name"]], p["extents"], dtype_of(p["ctype"]),
                           job.sizes)
    inputs = [p for p in job.image.params if p["kind"] == "in"]
    common = {p["name"]: draw(p) for p in inputs if p["name"] not in job.family.cold}
    return [{**common, **{p["name"]: draw(p) for p in inputs if p["name"] in job.family.cold}}
            for _ in range(job.copies)]


def packed(packers, a):
    """The inputs of a copy with weights as the kernel reads them."""
    made = dict(a)
    for packer in packers:
        for p in packer.image.params:
            name = p["name"]
            made[name] = a[name.removesuffix("_rows")] if p["kind"] == "in" else room(p)
        packer.launch_on(made)
    return made


def ours(job, copies):
    """A call for each copy, after a look at what the first gives."""
    kernel, packers = Kernel(job.image), [Kernel(image) for image in job.packers.values()]
    made = {p["name"]: room(p) for p in job.image.params if p["kind"] != "in"}
    lists = [{**packed(packers, a), **made} for a in copies]
    kernel.launch_on(lists[0])
    torch.cuda.synchronize()
    for name, want in job.family.truth(copies[0]).items():
        got, want = made[name].double(), want.double()
        far = float((got - want).norm() / want.norm())
        if not far <= NEAR:
            raise RuntimeError(f"{name} is {far:.2g} away from the formula")
    return [lambda tensors=tensors: kernel.launch_on(tensors) for tensors in lists]


def look(result):
    """Refuses what a peer gives if it is not finite."""
    for tensor in result if isinstance(result, (tuple, list)) else [result]:
        if not bool(torch.isfinite(tensor.float()).all()):
            raise RuntimeError("its output is not finite")


class Graph:
    """As many nodes as calls go round; nodes may be several launches of a peer. It holds the calls,
    and so their tensors: a capture gives back memory that nobody holds."""

    def __init__(self, calls, nodes, stream):
        self.calls, self.nodes, self.stream = calls, nodes, stream
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()  # inputs are made on another stream
        with torch.cuda.stream(stream):
            calls[0]()
            stream.synchronize()
            with torch.cuda.graph(self.graph, stream=stream):
                for i in range(nodes):
                    calls[i % len(calls)]()

    def replay(self, count):
        """us of a node in each of `count` replays, after one that warms up."""
        with torch.cuda.stream(self.stream):
            self.graph.replay()
            events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
            events[0].record()
            for event in events[1:]:
                self.graph.replay()
                event.record()
            self.stream.synchronize()
        return [a.elapsed_time(b) * 1e3 / self.nodes for a, b in zip(events, events[1:])]


def contend(job, peers, stream):
    """us and spread in % of each contender, ours first, or the sentence of what failed."""
    copies, graphs, results = draw_copies(job), {}, {}

    def replay(calls):
        return Graph(calls, job.copies, stream).replay(3)
    for name, make in {"ours": lambda copies, _: ours(job, copies), **peers}.items():
        try:
            calls = make(copies, replay)
            if name != "ours":
                look(calls[0]())
            graphs[name] = Graph(calls, job.nodes, stream)
        except Exception as error:  # whatever a peer does
            results[name] = " ".join(str(error).replace("|", "/").split())[:120] or repr(error)
            torch.cuda.synchronize()  # raises where the device is lost
    blocks = {name: [] for name in graphs}
    for graph in graphs.values():
        graph.replay(WARM)
    for _ in range(2):
        for name, graph in graphs.items():
            blocks[name].append(graph.replay(REPLAYS))
    for name, (first, second) in blocks.items():
        us = statistics.median(first + second)
        apart = abs(statistics.median(first) - statistics.median(second))
        results[name] = (us, 100 * apart / us)
    return results


# ---- processes ----


def is_whole(results):
    return all(isinstance(result, tuple) for result in results.values())


def work(rounds, pipe):
    """The life of a process that times rounds: sends the results of each. It ends behind the first
    in which something failed: PyTorch is not itself again after a capture that went wrong."""
    os.setsid()  # compilers that it starts end with it
    torch.manual_seed(SEED)
    torch.cuda.init()
    stream = torch.cuda.Stream()
    for job, peers in rounds:
        results = contend(job, peers, stream)
        pipe.send(results)
        torch.cuda.empty_cache()
        if not is_whole(results):
            return


class Timer:
    """Such a process from the outside. PyTorch is loaded before it is forked, and touches no GPU
    there."""

    def __init__(self, rounds):
        context = multiprocessing.get_context("fork")
        self.pipe, end = context.Pipe(duplex=False)
        self.process = context.Process(target=work, args=(rounds, end))
        self.process.start()
        end.close()

    def hear(self, seconds):
        """The results of its next round, or the sentence of what happened to it."""
        if not self.pipe.poll(seconds):
            return f"no result within {seconds:.0f} s"
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            return f"its process ended with {self.process.exitcode}"

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has ended, or is not yet a group
            self.process.kill()
        self.process.join()


def rounds_of(jobs):
    """Jobs with their peers, first with those that are quick."""
    def some(job, slow):
        return {peer: make for peer, make in job.peers.items() if shapes.searches(peer) == slow}
    rounds = [(job, some(job, slow)) for slow in (False, True) for job in jobs]
    return [(job, peers) for job, peers in rounds if peers]


def timed(rounds, until):
    """Each round with its results, as they come, as long as time is left."""
    timer = None
    try:
        for i, (job, peers) in enumerate(rounds):
            left = until - time.monotonic()
            if left <= 0:
                break
            timer = timer or Timer(rounds[i:])
            results = timer.hear(min(left, PATIENCE))
            if isinstance(results, str):
                results = {name: results for name in ("ours", *peers)}
            yield job, peers, results
            if not is_whole(results):
                timer.end()
                timer = None
    finally:
        if timer:
            timer.end()


# ---- the table ----

HEAD = ("| shape | M | our kernel | us | +-% | peer | us | +-% | peer / ours |\n"
        "|---|---|---|---|---|---|---|---|---|")


def cells(result):
    return f"{result[0]:.4g} | {result[1]:.2g}" if isinstance(result, tuple) else f"{result} | "


def rows_of(job, peers, results):
    """A line of the table and an object for each peer."""
    mine = results["ours"]
    for name in peers:
        peer = results[name]
        both = isinstance(mine, tuple) and isinstance(peer, tuple)
        ratio = f"{peer[0] / mine[0]:.2f}" if both else ""
        yield (f"| {job.title} | {job.rows} | {job.image.name} | {cells(mine)} | {name} | "
               f"{cells(peer)} | {ratio} |",
               {"shape": job.title, "rows": job.rows, "kernel": job.image.name, "ours": mine,
                "peer": name, "result": peer, "bytes": job.image.bytes, "copies": job.copies,
                "nodes": job.nodes})


def machine():
    fields = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu"
    try:
        asked = subprocess.run(["nvidia-smi", "--format=csv,noheader", f"--query-gpu={fields}"],
                               text=True, capture_output=True, check=False)
        return asked.stdout.strip()
    except OSError:
        return "no nvidia-smi"


def jobs_of(options):
    rows = [int(word) for word in options.rows.split(",")]
    folder = os.path.realpath(options.folder)
    cache = lathe(folder, "cache", "path").strip()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        asked = [pool.submit(Job, folder, cache, shape, m) for shape in shapes.SHAPES
                 for m in rows if options.only in title(shape) and shapes.peers_of(shape[0], m)]
        for each in asked:
            if each.exception():
                print(f"not built: {each.exception()}", flush=True)
        return [each.result() for each in asked if not each.exception()], len(asked)


def run(jobs, until, out):
    """How many of the jobs have a time of ours."""
    rounds, count, ours_of = rounds_of(jobs), 0, set()
    print(f"{machine()}\n{datetime.date.today()}, seed {SEED}, torch {torch.__version__}\n\n{HEAD}",
          flush=True)
    for job, peers, results in timed(rounds, until):
        count += 1
        if isinstance(results["ours"], tuple):
            ours_of.add(job)
        for line, row in rows_of(job, peers, results):
            print(line, flush=True)
            print(json.dumps(row), file=out, flush=True)
    print(f"\n{machine()}\n{count} of {len(rounds)} rounds")
    return len(ours_of)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=os.path.dirname(os.path.abspath(__file__)),
                        help="where the lathe of `make dist` lies; default: beside this file")
    parser.add_argument("--rows", default="1", help="default: 1")
    parser.add_argument("--only", default="", help='shapes whose title has this text: "4096 x 11"')
    parser.add_argument("--seconds", type=float, default=math.inf, help="ends then; default: never")
    parser.add_argument("--out", help="a file of JSON lines too")
    parser.add_argument("--dry", action="store_true",
                        help="say what would run, from real images; needs neither GPU nor PyTorch")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the process that times ends too
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("LATHE_CACHE_DIR", scratch)
        jobs, wanted = jobs_of(options)
    if options.dry:
        for job in jobs:
            job.describe()
        return len(jobs) < wanted
    with open(options.out or os.devnull, "w", encoding="utf-8") as out:
        return run(jobs, until, out) < wanted


if __name__ == "__main__":
    torch = shapes.torch
    sys.exit(main())

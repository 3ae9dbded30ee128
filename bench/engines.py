# SPDX-License-Identifier: Apache-2.0
"""One engine runs one model for a while, in a process of its own, and prints a JSON object: latencies in microseconds,
times to load and to run first, peak memory, largest difference to the expected outputs. Arguments: one JSON object (see
compare.py).

An engine is prepared by a function that returns (run, results, version): run() computes on bound inputs, results()
gives arrays.
"""
import json, os, resource, subprocess, sys, tempfile, time


def load_arrays(values):
    import numpy
    return {v["name"]: numpy.load(v["file"]) for v in values}


def onnxruntime(job, arrays):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = job["threads"], 1
    session = ort.InferenceSession(job["model"], options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in arrays.items():
        binding.bind_cpu_input(name, array)
    names = [output.name for output in session.get_outputs()]
    for name in names:
        binding.bind_output(name)
    return (lambda: session.run_with_iobinding(binding), lambda: dict(zip(names, binding.copy_outputs_to_cpu())),
            ort.__version__)


def openvino(job, arrays):
    import openvino as ov
    core = ov.Core()
    model = core.read_model(job["model"])
    model.reshape({name: list(array.shape) for name, array in arrays.items()})
    config = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
              "INFERENCE_NUM_THREADS": str(job["threads"])}
    request = core.compile_model(model, "CPU", config).create_infer_request()
    for name, array in arrays.items():
        request.set_tensor(name, ov.Tensor(array, shared_memory=bool(array.size and array.ndim)))
    names = [output["name"] for output in job["outputs"]]
    return request.infer, lambda: {name: request.get_tensor(name).data for name in names}, ov.__version__


def exported_program(model):
    """torch takes no ONNX: model.pt2 in the model's folder, or in a folder pt2-NAME beside it."""
    folder = os.path.dirname(os.path.abspath(model))
    for place in folder, os.path.join(os.path.dirname(folder), "pt2-" + os.path.basename(folder)):
        if os.path.exists(os.path.join(place, "model.pt2")):
            return os.path.join(place, "model.pt2")
    raise FileNotFoundError("there is no model.pt2 (torch.export) beside the model")


def torch(job, arrays):
    program = exported_program(job["model"])
    import torch as pt
    pt.set_num_threads(job["threads"])
    pt.set_num_interop_threads(1)
    pt.set_grad_enabled(False)
    module, inputs, got = pt.export.load(program).module(), [pt.from_numpy(a) for a in arrays.values()], []
    if job["engine"] == "torch-compile":
        module = pt.compile(module)
    names = [output["name"] for output in job["outputs"]]

    def run():
        got[:] = [module(*inputs)]

    return (run, lambda: {n: t.numpy() for n, t in zip(names, pt.utils._pytree.tree_leaves(got))}, pt.__version__)


PEERS = {"onnxruntime": onnxruntime, "openvino": openvino, "torch": torch, "torch-compile": torch}


def largest_difference(got, outputs):
    import numpy
    worst = 0.0
    for name, want in load_arrays(outputs).items():
        if got[name].shape != want.shape:
            raise ValueError(f"output {name} has shape {got[name].shape}, expected {want.shape}")
        a, b = got[name].astype("f8"), want.astype("f8")
        off = numpy.where((a == b) | (numpy.isnan(a) & numpy.isnan(b)), 0, numpy.abs(a - b))
        worst = max(worst, float(off.max(initial=0)))
    return worst


def run_peer(job):
    arrays = load_arrays(job["inputs"])
    clock = time.perf_counter
    start = clock()
    run, results, version = PEERS[job["engine"]](job, arrays)
    loaded = clock()
    run()
    first = clock() - loaded
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for _ in range(10):
        run()
    us, end = [], clock() + job["seconds"]
    while not us or clock() < end:
        begin = clock()
        run()
        us.append((clock() - begin) * 1e6)
    return {"us": us, "load_ms": (loaded - start) * 1e3, "first_ms": first * 1e3, "rss_bytes": peak, "version": version,
            "difference": largest_difference(results(), job["outputs"]) if job["outputs"] else None}


def call(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def raw_elements(file):
    """Of a .npy file of version 1, without numpy, which would count as memory of what this process starts."""
    data = open(file, "rb").read()
    return data[10 + int.from_bytes(data[8:10], "little"):]


def peak_of_runner(job, folder):
    """Peak memory of a process that opens the artifact, runs it once and does nothing else."""
    for i, value in enumerate(v for v in job["inputs"] if v["name"] not in job["fixed"]):
        with open(os.path.join(folder, f"in{i}"), "wb") as file:
            file.write(raw_elements(value["file"]))
    call([job["runner"], job["artifact"], folder, str(job["threads"])])
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def run_igata(job):
    inputs = [f"--input={i['name']}=@{i['file']}" for i in job["inputs"] if i["name"] not in job["fixed"]]
    common = [job["artifact"], "--threads", str(job["threads"]), *inputs]
    with tempfile.TemporaryDirectory() as folder:
        peak = peak_of_runner(job, folder)  # first: it is the largest of all children's
        raw = os.path.join(folder, "raw")
        measured = call([job["igata"], "bench", *common, "--seconds", str(job["seconds"]), "--json", "--raw", raw])
        stats = json.loads(measured)
        us = [float(line) for line in open(raw)]
        files = [{"name": o["name"], "file": os.path.join(folder, f"{i}.npy")} for i, o in enumerate(job["outputs"])]
        if files:
            call([job["igata"], "run", *common, *[f"--output={f['name']}=@{f['file']}" for f in files]])
        work = None
        if job["engine"] == "igata":  # an older build may not count
            counts = json.loads(call([job["igata"], "bench", *common, "--per-kernel", "--runs", "1", "--json"]))
            work = {key: counts[key] for key in ("flops", "bytes", "limit_gflops", "limit_gbs")}
        return {"us": us, "load_ms": stats["open_us"] / 1e3, "first_ms": stats["first_run_us"] / 1e3,
                "work": work, "rss_bytes": peak, "version": call([job["igata"], "--version"]).strip(),
                "difference": largest_difference(load_arrays(files), job["outputs"]) if files else None}


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    json.dump(run_peer(task) if task["engine"] in PEERS else run_igata(task), sys.stdout)

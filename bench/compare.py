# SPDX-License-Identifier: Apache-2.0
"""Latency of igata and of its peers, in alternating short rounds, each round in a process of its own while nothing else of this
program runs. Ratios are medians over rounds of (peer's median / igata's median of the same round). Writes OUT.md and OUT.json.

A model is an .onnx file or a folder with model.onnx; inputs come from its test_data_set_0, else random numbers, symbolic sizes 1.
"""
import argparse, glob, json, os, subprocess, sys, tempfile, time


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def median(values):
    return quantile(values, 0.5)


def find_model(path):
    return os.path.join(path, "model.onnx") if os.path.isdir(path) else path


def data_files(model):
    return sorted(glob.glob(os.path.join(os.path.dirname(model), "test_data_set_0", "input_*.pb")),
                  key=lambda f: int(f.rsplit("_", 1)[1][:-3]))


def real_inputs(model):
    """Names of the graph's inputs that no initializer fills, with their sizes (None: symbolic)."""
    import onnx
    graph = onnx.load(model, load_external_data=False).graph
    filled = {i.name for i in graph.initializer}
    result = []
    for value in graph.input:
        if value.name not in filled:
            dims = [d.dim_value if d.HasField("dim_value") else None for d in value.type.tensor_type.shape.dim]
            result.append((value.name, dims, value.type.tensor_type.elem_type))
    return result


def run_onnxruntime(model, seconds):
    """Runs in a child: prints one JSON object."""
    import numpy as np, onnx, onnxruntime as ort, resource
    from onnx import numpy_helper, helper
    start = time.perf_counter()
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    load = time.perf_counter() - start
    binding = session.io_binding()
    files = data_files(model)
    random = np.random.default_rng(0)
    for i, (name, dims, elem) in enumerate(real_inputs(model)):
        if i < len(files):
            tensor = onnx.TensorProto()
            tensor.ParseFromString(open(files[i], "rb").read())
            value = numpy_helper.to_array(tensor)
        else:
            value = random.uniform(-1, 1, [d or 1 for d in dims]).astype(helper.tensor_dtype_to_np_dtype(elem))
        binding.bind_cpu_input(name, value)
    for out in session.get_outputs():
        binding.bind_output(out.name)
    us, clock = [], time.perf_counter
    for _ in range(10):
        session.run_with_iobinding(binding)
    end = clock() + seconds
    while not us or clock() < end:
        a = clock()
        session.run_with_iobinding(binding)
        us.append((clock() - a) * 1e6)
    print(json.dumps({"us": us, "load_ms": load * 1e3, "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def measure_igata(igata, model, artifact, seconds):
    with tempfile.NamedTemporaryFile() as raw:
        command = [igata, "bench", artifact, "--seconds", str(seconds), "--json", "--raw", raw.name]
        for (name, _, _), file in zip(real_inputs(model), data_files(model)):
            command += ["-i", f"{name}=@{file}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return {"error": done.stderr.strip()[-300:]}
        return {"us": [float(line) for line in open(raw.name)], "json": json.loads(done.stdout)}


def measure_peer(model, seconds):
    done = subprocess.run([sys.executable, __file__, "--child", "--seconds", str(seconds), model], capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip()[-300:]}
    return json.loads(done.stdout)


def shape_options(model):
    import onnx
    from onnx import numpy_helper
    options, files = [], data_files(model)
    for i, (name, dims, _) in enumerate(real_inputs(model)):
        if None in dims:
            if i < len(files):
                tensor = onnx.TensorProto()
                tensor.ParseFromString(open(files[i], "rb").read())
                dims = list(tensor.dims)
            options += ["--shape", f"{name}=" + "x".join(str(d or 1) for d in dims)]
    return options


def bench_model(igata, path, rounds, seconds, folder):
    model = find_model(path)
    name = os.path.basename(os.path.dirname(os.path.abspath(model))) if os.path.isdir(path) else os.path.basename(path)
    artifact = os.path.join(folder, name + ".so")
    start = time.perf_counter()
    done = subprocess.run([igata, "compile", model, "-o", artifact] + shape_options(model), capture_output=True, text=True)
    result = {"model": name, "compile_ms": (time.perf_counter() - start) * 1e3, "rounds": []}
    if done.returncode:
        result["error"] = done.stderr.strip()[-300:]
        return result
    result["artifact_bytes"] = os.path.getsize(artifact)
    for r in range(rounds):
        pair = [("igata", lambda: measure_igata(igata, model, artifact, seconds)), ("onnxruntime", lambda: measure_peer(model, seconds))]
        measured = {engine: run() for engine, run in (pair if r % 2 == 0 else reversed(pair))}
        for engine, m in measured.items():
            if "error" in m:
                result["error"] = f"{engine}: {m['error']}"
                return result
        result["rounds"].append({e: {"p50": median(m["us"]), "p99": quantile(m["us"], 0.99), "runs": len(m["us"])}
                                 for e, m in measured.items()})
    for engine in ("igata", "onnxruntime"):
        result[engine] = {q: median([r[engine][q] for r in result["rounds"]]) for q in ("p50", "p99")}
    for q in ("p50", "p99"):
        result["ratio_" + q] = median([r["onnxruntime"][q] / r["igata"][q] for r in result["rounds"]])
    return result


def table(results):
    lines = ["| model | igata p50 us | p99 | onnxruntime p50 us | p99 | ratio p50 | ratio p99 | compile ms |",
             "|---|---|---|---|---|---|---|---|"]
    for r in results:
        if "error" in r:
            lines.append(f"| {r['model']} | {' '.join(r['error'].split())} |||||||")
            continue
        a, b = r["igata"], r["onnxruntime"]
        lines.append(f"| {r['model']} | {a['p50']:.1f} | {a['p99']:.1f} | {b['p50']:.1f} | {b['p99']:.1f} | {r['ratio_p50']:.2f} | "
                     f"{r['ratio_p99']:.2f} | {r['compile_ms']:.0f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--igata", default="build/igata")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--out", default="bench-result")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return run_onnxruntime(args.models[0], args.seconds)
    with tempfile.TemporaryDirectory() as folder:
        results = [bench_model(args.igata, m, args.rounds, args.seconds, folder) for m in args.models]
    text = table(results)
    print(text, end="")
    with open(args.out + ".md", "w") as f:
        f.write(text)
    with open(args.out + ".json", "w") as f:
        json.dump(results, f, indent=1)
    slower = [r["model"] for r in results if r.get("ratio_p50", 0) < 1]
    if slower:
        print("not faster than onnxruntime: " + ", ".join(slower))


if __name__ == "__main__":
    sys.exit(main())

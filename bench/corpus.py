# SPDX-License-Identifier: Apache-2.0
"""Models of the benchmarks: where they are, what they are run on, how they are compiled.

As a program it describes one model (see describe) in a process of its own, with the only use of onnx: what a process
holds when it starts another counts as the other's peak memory on Linux, so the callers, which measure peaks, must stay
small.
"""
import glob, json, os, subprocess, sys, time


def models_of(paths):
    """[(name, file)]: a path is an .onnx file, a folder with model.onnx, or one that holds such at any depth."""
    result = []
    for path in paths:
        if os.path.isfile(path):
            result.append((os.path.basename(path), path))
        for folder, below, files in os.walk(path):
            below.sort()
            if "model.onnx" in files:
                base = os.path.abspath(path)
                inside = os.path.relpath(os.path.abspath(folder), base)
                result.append((os.path.basename(base) if inside == "." else inside, os.path.join(folder, "model.onnx")))
    return result


def data_files(model, kind):
    files = glob.glob(os.path.join(os.path.dirname(model), "test_data_set_0", kind + "_*.pb"))
    return sorted(files, key=lambda f: int(f.rsplit("_", 1)[1][:-3]))


def save_tensors(files, names, folder, kind):
    """The tensors of .pb files as .npy files, each with its own name or that of its place: {name: array}."""
    import numpy, onnx
    result = {}
    for i, file in enumerate(files):
        tensor = onnx.load_tensor(file)
        name = tensor.name if tensor.name in names else names[i]
        result[name] = onnx.numpy_helper.to_array(tensor)
    for i, (name, array) in enumerate(result.items()):
        numpy.save(os.path.join(folder, f"{kind}_{i}.npy"), array)
    return result


def describe(model, folder):
    """Inputs (from the first data set, else random; symbolic sizes 1) and expected outputs, written to `folder`: for
    each its name and file; for inputs the shape where the model leaves it open, and the value where it is small enough
    to decide one."""
    import numpy, onnx
    graph = onnx.load(model, load_external_data=False).graph
    filled = {i.name for i in graph.initializer}
    declared = {v.name: v.type.tensor_type for v in graph.input if v.name not in filled}
    dims = {name: [d.dim_value if d.HasField("dim_value") else None for d in t.shape.dim]
            for name, t in declared.items()}
    arrays = save_tensors(data_files(model, "input"), list(declared), folder, "input")
    random = numpy.random.default_rng(0)
    for name, tensor in declared.items():
        if name not in arrays:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            arrays[name] = random.uniform(-1, 1, [d or 1 for d in dims[name]]).astype(dtype)
            numpy.save(os.path.join(folder, f"input_{len(arrays) - 1}.npy"), arrays[name])
    inputs = []
    for i, (name, array) in enumerate(arrays.items()):
        small = array.size <= 64 and array.dtype.kind in "iub"
        inputs.append({"name": name, "file": os.path.join(folder, f"input_{i}.npy"),
                       "shape": "x".join(map(str, array.shape)) if None in dims.get(name, []) else None,
                       "value": ",".join(str(int(x)) for x in array.flat) if small else None})
    wanted = save_tensors(data_files(model, "output"), [v.name for v in graph.output], folder, "output")
    outputs = [{"name": name, "file": os.path.join(folder, f"output_{i}.npy")} for i, name in enumerate(wanted)]
    return {"model": model, "inputs": inputs, "outputs": outputs}


def description(model, folder):
    """What describe returns; or {"error": text}."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), model, folder], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": last_line(done.stderr)}


def last_line(text):
    """The line of what a failed program said that tells most."""
    said = [line for line in text.splitlines() if line.strip()] or ["no reason given"]
    line = ([line for line in said if "error[" in line] or said)[-1]
    return " ".join(line[max(line.find("error["), 0):].split()).replace("|", "/")[:200]


def run_once(command):
    """Status, what it said, seconds of wall and CPU time, peak bytes."""
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - start
    return {"status": process.returncode, "said": said, "wall": wall, "cpu": usage.ru_utime + usage.ru_stime,
            "peak": usage.ru_maxrss * 1024}


def compile_model(igata, spec, artifact, options=()):
    """Compiles for the shapes of the inputs. Where a value decides shapes, that input is made a constant: `fixed` names
    them."""
    shapes = [f"--shape={i['name']}={i['shape']}" for i in spec["inputs"] if i["shape"]]
    small = [i for i in spec["inputs"] if i["value"]]
    for fixed in [[]] + [[i] for i in small] + ([small] if len(small) > 1 else []):
        values = [f"--input-value={i['name']}={i['value']}" for i in fixed]
        done = run_once([igata, "compile", spec["model"], "-o", artifact, *shapes, *values, *options])
        if done["status"] == 0 or "error[onnx_unknown]" not in done["said"]:
            break
    done["fixed"] = [i["name"] for i in fixed]
    done["error"] = last_line(done["said"]) if done["status"] else None
    return done


if __name__ == "__main__":
    json.dump(describe(*sys.argv[1:]), sys.stdout)

# SPDX-License-Identifier: Apache-2.0
"""What compiling costs: a Markdown table of time and peak memory, a row per model, to standard output.

A model is an .onnx file, a folder with model.onnx, or a folder of such folders. Symbolic sizes are those of the first test inputs
beside the model, else 1. Wall time is the best of the rounds, CPU time and memory are of that round; the bound is that of
doc/performance.md: twice the model file and 200 MB.
"""
import argparse, glob, os, subprocess, sys, tempfile, time

from compare import data_files, find_model, real_inputs


def models_of(path):
    model = find_model(path)
    if os.path.isfile(model):
        return [model]
    return sorted(glob.glob(os.path.join(path, "*", "model.onnx")))


def print_shapes(model):
    """--shape options for what the model leaves open, one a line."""
    import onnx
    data = data_files(model)
    for i, (name, dims, _) in enumerate(real_inputs(model)):
        if None in dims:
            sizes = list(onnx.load_tensor(data[i]).dims) if i < len(data) else [d or 1 for d in dims]
            print(f"--shape={name}={'x'.join(map(str, sizes))}")


def shapes(model):
    """In a process of its own: Linux counts what this one holds when it forks as the peak of the child."""
    command = [sys.executable, os.path.abspath(__file__), "--print-shapes", model]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def weights_bytes(model):
    """The model file and external data beside it."""
    folder = os.path.dirname(model) or "."
    beside = [f for f in os.listdir(folder) if f.endswith((".data", ".bin", ".weights"))]
    return os.path.getsize(model) + sum(os.path.getsize(os.path.join(folder, f)) for f in beside)


def compile_once(command):
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - start
    return process.returncode, said, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--igata", default="build/igata")
    parser.add_argument("--cpu", default="native")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--print-shapes", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.print_shapes:
        print_shapes(options.models[0])
        return 0
    print("| model | model MB | wall s | CPU s | peak MB | bound MB |\n|---|---|---|---|---|---|")
    failed = 0
    for model in [m for path in options.models for m in models_of(path)]:
        name = os.path.basename(os.path.dirname(os.path.abspath(model)))
        size = weights_bytes(model) / 1e6
        with tempfile.TemporaryDirectory() as folder:
            command = [options.igata, "compile", model, "--cpu", options.cpu, "-o", os.path.join(folder, "out.so"), *shapes(model)]
            runs = [compile_once(command) for _ in range(options.rounds)]
        code, said, wall, cpu, peak = min(runs, key=lambda r: (r[0] != 0, r[2]))
        if code != 0:
            failed += 1
            reason = next((line for line in said.splitlines() if "error[" in line), f"exit status {code}")
            print(f"| {name} | {size:.0f} | {reason[reason.find('error['):][:100].replace('|', ' ')} | | | |", flush=True)
            continue
        over = " over" if peak * 1.048576 > 2 * size + 200 else ""
        print(f"| {name} | {size:.0f} | {wall:.2f} | {cpu:.2f} | {peak * 1.048576:.0f}{over} | {2 * size + 200:.0f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What becomes of each model: a Markdown table to standard output, a row per model.

A model is an .onnx file, a folder with model.onnx, or a folder of such folders. It is compiled for the shapes of its
first test inputs, else symbolic sizes are 1. Wall time is the best of the rounds, CPU time and peak memory are of
that round; the bound is that of doc/performance.md: twice the model file and 200 MB. Plan: workspace by the largest
sum of values alive at once.
"""
import argparse, json, os, subprocess, sys, tempfile

from corpus import compile_model, description, models_of

COLUMNS = ("model", "model MB", "kernels", "calls", "workspace bytes", "plan", "code bytes", "wall s", "CPU s",
           "peak MB", "bound MB")
TESTS = {"bits -O0": ["-O0"], "bits -O2, 2 threads": ["-O2", "--threads", "2"]}


def weights_bytes(model):
    """The model file and external data beside it."""
    folder = os.path.dirname(model) or "."
    beside = [f for f in os.listdir(folder) if f.endswith((".data", ".bin", ".weights"))]
    return os.path.getsize(model) + sum(os.path.getsize(os.path.join(folder, f)) for f in beside)


def check(command, seconds):
    """What it says last, or first of a failure, and whether it is content."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"not within {seconds:g} s", False
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAIL")] or done.stdout.splitlines()[-1:]
    text = lines[0].split(": ", 1)[-1] if lines else f"status {done.returncode}"
    return text[:100].replace("|", "/"), done.returncode == 0


def describe_artifact(igata, artifact):
    page = json.loads(subprocess.run([igata, "inspect", artifact, "--json"], check=True, stdout=subprocess.PIPE).stdout)
    entry = page["entries"][0]
    plan = entry["plan"]
    ratio = plan["peak_bytes"] / plan["lower_bound_bytes"] if plan["lower_bound_bytes"] else 1
    return [f"{len(page['kernels'])}", f"{len(entry['phases'])}", f"{plan['peak_bytes']:,}", f"{ratio:.3f}",
            f"{sum(k['code_bytes'] for k in page['kernels']):,}"]


def row(options, name, model):
    """The cells, and whether all is well."""
    with tempfile.TemporaryDirectory() as folder:
        spec, artifact = description(model, folder), os.path.join(folder, "model.so")
        size = weights_bytes(model) / 1e6
        if "error" in spec:
            return [name, f"{size:.0f}", f"refused: {spec['error']}"], False
        runs = [compile_model(options.igata, spec, artifact, ["--cpu", options.cpu]) for _ in range(options.rounds)]
        best = min(runs, key=lambda r: (r["status"] != 0, r["wall"]))
        if best["error"]:
            return [name, f"{size:.0f}", f"refused: {best['error']}"], False
        peak, bound = best["peak"] / 1e6, 2 * size + 200
        cells = [name, f"{size:.0f}", *describe_artifact(options.igata, artifact), f"{best['wall']:.2f}",
                 f"{best['cpu']:.2f}", f"{peak:.0f}{' over' if peak > bound else ''}", f"{bound:.0f}"]
        checks = []
        if options.test:
            command = [options.igata, "test", "--bits", os.path.dirname(model) or "."]
            checks += [check(command + extra, options.seconds) for extra in TESTS.values()]
        if options.run_check:
            checks.append(check([options.run_check, artifact], options.seconds))
        return cells + [text for text, _ in checks], all(good for _, good in checks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--igata", default="build/igata")
    parser.add_argument("--cpu", default="native")
    parser.add_argument("--rounds", type=int, default=3, help="compilations of each")
    parser.add_argument("--test", action="store_true", help="igata test --bits on each, by -O0 and by 2 threads")
    parser.add_argument("--run-check", metavar="PROGRAM",
                        help="test_rt_no_syscall: no allocation, lock or system call in a run")
    parser.add_argument("--seconds", type=float, default=600, help="limit of one check")
    options = parser.parse_args()
    models = models_of(options.models)
    if options.rounds < 1 or not models:
        parser.error("--rounds is positive" if models else "no model is there")
    columns = [*COLUMNS, *(TESTS if options.test else []), *(["no call in run"] if options.run_check else [])]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    good = True
    for name, model in models:
        cells, well = row(options, name, model)
        good &= well
        print("| " + " | ".join(cells + [""] * (len(columns) - len(cells))) + " |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

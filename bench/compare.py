# SPDX-License-Identifier: Apache-2.0
"""Latency of igata and of its peers, in alternating short rounds, each round in a process of its own while nothing else
of this program runs. Ratios are medians over rounds of (quickest peer / igata in the same round). Writes OUT.md and
OUT.json.

The engine `base` is the igata of another build (--base). `torch` (eager) and `torch-compile` run the exported program
model.pt2 in the model's folder, or in a folder pt2-NAME beside it, on the model's inputs in their order. With --gate,
the exit status is 1 where a ratio is below it.

A model is an .onnx file, a folder with model.onnx, or a folder of such folders. Inputs come from its test_data_set_0,
else they are random numbers, with symbolic sizes 1. What an engine cannot do becomes a row that says why.
"""
import argparse, json, math, os, platform, statistics, subprocess, sys, tempfile

from corpus import compile_model, description, last_line, models_of

ENGINES = ("igata", "base", "onnxruntime", "openvino", "torch", "torch-compile")
COLUMNS = (("p50", "p50 us"), ("p99", "p99"), ("p99_9", "p99.9"), ("max", "max"), ("stddev", "stddev"),
           ("load_ms", "load ms"), ("first_ms", "first run ms"), ("rss_mb", "peak RSS MB"), ("gflops", "GFLOP/s"),
           ("fma_percent", "% of FMA"), ("read_percent", "% of reading"))
PER_ROUND = ("p50", "p99", "p99_9", "max", "stddev", "load_ms", "first_ms", "rss_mb")
HERE = os.path.dirname(os.path.abspath(__file__))


def quantile(values, q):
    return values[max(0, math.ceil(q * len(values)) - 1)]


def measure(job):
    """One round of one engine."""
    try:
        done = subprocess.run([sys.executable, os.path.join(HERE, "engines.py"), json.dumps(job)], capture_output=True,
                              text=True, timeout=job["timeout"])
    except subprocess.TimeoutExpired:
        return {"error": f"no end after {job['timeout']} s"}
    if done.returncode:
        return {"error": last_line(done.stderr) if done.stderr else f"exit status {done.returncode}"}
    result = json.loads(done.stdout)
    us = sorted(result.pop("us"))
    result.update(p50=quantile(us, 0.5), p99=quantile(us, 0.99), p99_9=quantile(us, 0.999), max=us[-1],
                  stddev=statistics.pstdev(us), runs=len(us), rss_mb=result.pop("rss_bytes") / 1e6)
    return result


def work_of(rounds):
    """What igata counted in a run, and the most that this machine did in a second in any round."""
    work = [r["igata"]["work"] for r in rounds]
    return {"flops": work[0]["flops"], "bytes": work[0]["bytes"], "limit_gflops": max(w["limit_gflops"] for w in work),
            "limit_gbs": max(w["limit_gbs"] for w in work)}


def summarize(rounds, work):
    middle = {key: statistics.median(r[key] for r in rounds) for key in PER_ROUND}
    gflops, gbs = [work[key] / middle["p50"] / 1e3 if work else 0 for key in ("flops", "bytes")]
    middle["gflops"] = gflops or None
    middle["fma_percent"] = 100 * gflops / work["limit_gflops"] if work else None
    middle["read_percent"] = 100 * gbs / work["limit_gbs"] if work else None
    return {**middle, "difference": rounds[0]["difference"], "version": rounds[0]["version"],
            "runs": sum(r["runs"] for r in rounds)}


def compare_rounds(rounds, peers):
    """Medians over rounds of the best peer's figure by igata's; `tail`: p99 / p50, the quickest peer's by igata's."""
    ratios = {"p50": [], "p99": [], "rss_mb": [], "tail": []}
    for r in rounds:
        for key in ("p50", "p99", "rss_mb"):
            ratios[key].append(min(r[p][key] for p in peers) / r["igata"][key])
        best = min((r[p] for p in peers), key=lambda m: m["p50"])
        ratios["tail"].append((best["p99"] / best["p50"]) / (r["igata"]["p99"] / r["igata"]["p50"]))
    return {key: statistics.median(values) for key, values in ratios.items()}


def bench_model(args, name, model, folder):
    spec = description(model, folder)
    result = {"model": name, "engines": {}, "errors": {}, "rounds": []}
    if "error" in spec:
        result["errors"] = {"model": spec["error"]}
        return result
    job = {**spec, "threads": args.threads, "seconds": args.seconds, "timeout": args.timeout}
    jobs = {e: {**job, "engine": e} for e in args.engines}
    for engine, igata in (("igata", args.igata), ("base", args.base)):
        if engine not in args.engines:
            continue
        artifact = os.path.join(folder, engine + ".so")
        done = compile_model(igata, spec, artifact, ["--cpu", "native", "--threads", str(args.threads)])
        jobs[engine].update(igata=igata, runner=args.runner or runner_beside(igata), artifact=artifact,
                            fixed=done["fixed"])
        result.setdefault("compiled", {})[engine] = {"cpu_s": done["cpu"], "fixed": done["fixed"]}
        if done["error"]:
            result["errors"][engine] = done["error"]
        else:
            result["compiled"][engine]["artifact_bytes"] = os.path.getsize(artifact)
    for r in range(args.rounds):
        left = [e for e in args.engines if e not in result["errors"]]
        first = r % max(len(left), 1)
        measured = {e: measure(jobs[e]) for e in left[first:] + left[:first]}
        result["errors"].update({e: m["error"] for e, m in measured.items() if "error" in m})
        result["rounds"].append(measured)
    good = [e for e in args.engines if e not in result["errors"]]
    result["work"] = work_of(result["rounds"]) if "igata" in good else None
    result["engines"] = {e: summarize([r[e] for r in result["rounds"]], result["work"]) for e in good}
    if "igata" in good and len(good) > 1:
        result["ratio"] = compare_rounds(result["rounds"], [e for e in good if e != "igata"])
    return result


def number(value):
    return "" if value is None else f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def rows(result):
    lines = []
    for engine, s in result["engines"].items():
        made = result.get("compiled", {}).get(engine)
        cells = [result["model"], engine, *[number(s[key]) for key, _ in COLUMNS], number(s["difference"]),
                 number(made["cpu_s"]) if made else "", number(made["artifact_bytes"] / 1e6) if made else "",
                 f"{result['ratio']['p50']:.2f}" if engine == "igata" and "ratio" in result else ""]
        lines.append("| " + " | ".join(cells) + " |")
    rest = "| " * (len(COLUMNS) + 3) + "|"
    lines += [f"| {result['model']} | {engine} | {text} {rest}" for engine, text in result["errors"].items()]
    return lines


def heading():
    names = ["model", "engine", *[title for _, title in COLUMNS], "max difference", "compile CPU s", "artifact MB",
             "best peer / igata"]
    return ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]


def summary(results):
    ratios = {r["model"]: r["ratio"]["p50"] for r in results if "ratio" in r}
    if not ratios:
        return []
    mean = statistics.geometric_mean(ratios.values())
    lines = ["", f"Geometric mean of best peer / igata over {len(ratios)} models: {mean:.2f}."]
    for key, what in (("p50", "Slower than a peer"), ("p99", "A peer's p99 is lower"),
                      ("rss_mb", "A peer's memory is lower")):
        behind = [f"{r['model']} {r['ratio'][key]:.2f}" for r in results if "ratio" in r and r["ratio"][key] < 1]
        if behind:
            lines.append(f"{what}: {', '.join(behind)}.")
    return lines


def cpu_name():
    try:
        return next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def runner_beside(igata):
    return os.path.join(os.path.dirname(igata), "bench", "bench_runner")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--igata", default="build/igata")
    parser.add_argument("--base", metavar="IGATA", help="the igata of another build, for the engine `base`")
    parser.add_argument("--runner",
                        help="program whose memory counts as igata's (default: bench/bench_runner beside igata)")
    parser.add_argument("--gate", type=float, metavar="RATIO",
                        help="exit status 1 where a ratio is below this or igata cannot do a model")
    parser.add_argument("--engines", default="igata,onnxruntime", help="some of " + ",".join(ENGINES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each engine in each round")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that one engine may take for one round")
    parser.add_argument("--out", default="bench-result")
    args = parser.parse_args()
    args.engines = list(dict.fromkeys(args.engines.split(",")))
    if set(args.engines) - set(ENGINES):
        parser.error(f"--engines takes some of {','.join(ENGINES)}")
    if args.threads < 1 or args.rounds < 1 or args.seconds <= 0:
        parser.error("--threads, --rounds and --seconds are positive")
    args.models = models_of(args.models)
    if not args.models:
        parser.error("no model is there")
    if ("base" in args.engines) != (args.base is not None):
        parser.error("the engine base needs --base, and --base that engine")
    for engine, igata in (("igata", args.igata), ("base", args.base)):
        runner = args.runner or runner_beside(igata or "")
        if engine in args.engines and not os.path.exists(runner):
            parser.error(f"{runner} is not there: build the target `benchmarks`")
    return args


def below(results, gate):
    """Lines about what igata does not do, or more slowly than the gate allows."""
    lines = []
    for r in results:
        errors = [text for engine, text in r["errors"].items() if engine in ("igata", "model")]
        if errors:
            lines.append(f"gate: {r['model']}: {errors[0]}")
        elif "ratio" in r and r["ratio"]["p50"] < gate:
            lines.append(f"gate: {r['model']}: {r['ratio']['p50']:.3f} is below {gate:g}")
    return lines


def main():
    args = read_arguments()
    lines, results = heading(), []
    print("\n".join(lines), flush=True)
    for name, model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            results.append(bench_model(args, name, model, folder))
        lines += rows(results[-1])
        print("\n".join(rows(results[-1])), flush=True)
    lines += summary(results)
    print("\n".join(summary(results)))
    with open(args.out + ".md", "w") as file:
        file.write("\n".join(lines) + "\n")
    with open(args.out + ".json", "w") as file:
        json.dump({"machine": {"cpu": cpu_name(), "cpus": os.cpu_count()}, "threads": args.threads,
                   "seconds": args.seconds, "models": results}, file, indent=1)
    failed = below(results, args.gate) if args.gate else []
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

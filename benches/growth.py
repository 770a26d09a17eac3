#!/usr/bin/env python3
"""How cost grows with locks, waiters, readers, leases, replicas and nodes: runs `fencepost-bench` at one size after the other and prints tables.

    benches/growth.py PROGRAM [locks] [waiters] [readers] [leases] [replicas] [nodes] [--up-to N]

PROGRAM is an optimised fencepost-bench, beside an optimised fencepost. What fails has a row of dashes, and its reason on standard error. All of it takes up to an hour and, for ten million locks, ten gigabytes of memory; --up-to leaves
larger sizes out. Figures are of one run each, of readers and nodes medians of rounds that take turns: look at how they grow, not at a single one.
"""

import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {
    "locks": [1_000, 10_000, 100_000, 1_000_000, 10_000_000],
    "waiters": [1, 10, 100, 1_000, 10_000, 100_000],
    "readers": [64, 1_000],
    "leases": [1_000, 10_000, 100_000, 1_000_000],
    "replicas": [1, 2, 3, 4],
    "nodes": [1, 3, 5],
}
# Rounds of `nodes` and `readers`, of each size or mode in turn.
ROUNDS = 5
# How long a program may take to start.
START_MAX = 10
# What one stream, and one session, may carry.
LEASES_PER_STREAM = 50_000
WAITERS_PER_SESSION = 8_000


def bench(program, store, workload, **options):
    return run(program, ["--store", store], workload, **options)


def run(program, target, workload, via="session", **options):
    words = [program, *target, "--workload", workload, "--via", via, "--no-baselines", "--rounds", "1", "--json"]
    for name, value in options.items():
        words += ["--" + name, str(value)]
    ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode != 0:
        # Its row says nothing then, and the sizes after it are still measured.
        print(f"{' '.join(words)}: {ended.stderr.strip().splitlines()[-1:]}", file=sys.stderr, flush=True)
        return {}
    return json.loads(ended.stdout)["workloads"][workload]["fencepost"]


def shown(figures, name):
    value = figures.get(name)
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(title, heads, rows):
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


PAIRS = ["rate_per_s", "p50_us", "p99_us", "server_cpu_s_per_100k", "redis_cpu_s_per_100k"]
PAIRS_HEADS = ["pairs/s", "p50, µs", "p99, µs", "server, CPU s per 100,000", "Redis, CPU s per 100,000"]


def locks(program, sizes):
    for store in ["memory", "redis"]:
        def rows():
            for held in sizes:
                figures = bench(program, store, "pairs", held=held, duration="3s")
                yield [f"{held:,}", *(shown(figures, name) for name in PAIRS)]
        table(f"Locks held meanwhile, {store}: pairs of 64 clients", ["locks", *PAIRS_HEADS], rows())


def waiters(program, sizes):
    for store in ["memory", "redis"]:
        def rows():
            for count in sizes:
                connections = max(1, -(-count // WAITERS_PER_SESSION))
                moving = bench(program, store, "handoff", clients=count + 1, connections=connections, duration="3s", warmup="2s")
                still = bench(program, store, "idle", waiters=count, connections=connections, duration="5s")
                yield [f"{count:,}", *(shown(moving, name) for name in ["rate_per_s", "jain_fairness", "server_cpu_s_per_100k",
                       "redis_cpu_s_per_100k", "evalsha_per_operation"]),
                       *(shown(still, name) for name in ["evalsha_per_s", "server_cpu_percent", "server_bytes_per_waiter"])]
        table(f"Waiters on one lock, {store}", ["waiters", "hand-offs/s", "Jain", "server, CPU s per 100,000", "Redis, CPU s per 100,000",
              "EVALSHA each", "idle: EVALSHA/s", "idle: server, % of a core", "idle: server, bytes each"], rows())


MODES = ["exclusive", "mixed", "shared", "semaphore"]


def readers(program, sizes):
    # All modes run in turn, because the minutes on a machine differ.
    for store, via in [(store, via) for via in ["session", "unary"] for store in ["redis", "memory"]]:
        def rows():
            for count in sizes:
                rounds = [{mode: bench(program, store, "handoff", via=via, mode=mode, clients=count, warmup="1s", duration="2s")
                           for mode in MODES} for _ in range(ROUNDS)]
                for mode in MODES:
                    # A round that failed has no figures.
                    measured = [each for each in rounds if each[mode] and each["exclusive"]]
                    if not measured:
                        continue
                    ratios = [each[mode]["rate_per_s"] / each["exclusive"]["rate_per_s"] for each in measured]
                    middle = {name: statistics.median(each[mode].get(name) or 0 for each in measured) for name in READERS}
                    yield [f"{count:,}", mode, shown(middle, "rate_per_s"),
                           f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                           *(shown(middle, name) for name in READERS[1:]), str(sum(each[mode].get("errors", 0) for each in rounds))]
        table(f"Clients of one lock, {store}, {via}", ["clients", "mode", "grants/s", "of exclusive", *READERS_HEADS, "errors"], rows())


READERS = ["rate_per_s", "p50_us", "p99_us", "jain_fairness", *PAIRS[3:], "evalsha_per_operation"]
READERS_HEADS = ["wait, p50, µs", "p99, µs", "Jain", *PAIRS_HEADS[3:], "EVALSHA each"]


def leases(program, sizes):
    names = ["renewals_per_s", "lost", "server_cpu_percent", "redis_cpu_percent", "evalsha_per_s", "server_bytes_per_lease", "redis_bytes_per_lease"]
    for store in ["memory", "redis"]:
        def rows():
            for count in sizes:
                streams = max(10, -(-count // LEASES_PER_STREAM))
                figures = bench(program, store, "hold", leases=count, streams=streams, ttl="60s", duration="25s")
                yield [f"{count:,}", *(shown(figures, name) for name in names)]
        table(f"Leases of 60 s on streams, {store}", ["leases", "renewals/s", "lost", "server, % of a core", "Redis, % of a core", "EVALSHA/s",
              "server, bytes each", "Redis, bytes each"], rows())


def replicas(program, sizes):
    def rows():
        for count in sizes:
            pairs = bench(program, "redis", "pairs", replicas=count, duration="3s")
            handoff = bench(program, "redis", "handoff", replicas=count, duration="3s")
            yield [str(count), *(shown(pairs, name) for name in PAIRS), shown(handoff, "rate_per_s"), shown(handoff, "jain_fairness"),
                   shown(handoff, "evalsha_per_operation")]
    table("Replicas on one Redis, 64 clients", ["replicas", *PAIRS_HEADS, "hand-offs/s", "Jain", "EVALSHA a hand-off and replica"], rows())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def process(words, port):
    """A program that listens on this port, for as long as the context lasts."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        try:
            until = time.monotonic() + START_MAX
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if started.poll() is not None or time.monotonic() > until:
                    sys.exit(f"{words[0]} does not listen on port {port}")
                time.sleep(0.02)
            yield started
        finally:
            started.terminate()


def cpu(processes):
    """The processor time of these processes so far, in seconds."""
    ticks = [pathlib.Path(f"/proc/{it.pid}/stat").read_text().rpartition(")")[2].split()[11:13] for it in processes]
    return sum(int(tick) for pair in ticks for tick in pair) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def server_of_nodes(program, count, directory):
    """A server on this many Redis servers: its address, its process and theirs."""
    fencepost = str(pathlib.Path(program).with_name("fencepost"))
    with contextlib.ExitStack() as stack:
        ports = [free_port() for _ in range(count)]
        plain = ["--bind", "127.0.0.1", "--save", "", "--dir", directory]
        redis = [stack.enter_context(process(["redis-server", "--port", str(port), *plain], port)) for port in ports]
        store = ",".join(f"redis://127.0.0.1:{port}" for port in ports)
        if count > 1:
            subprocess.run([fencepost, "quorum", "create", "--store", store], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = free_port()
        words = [fencepost, "serve", "--listen", f"127.0.0.1:{port}", "--admin-listen", "none", "--store", store]
        server, address = stack.enter_context(process(words, port)), f"127.0.0.1:{port}"
        # It listens before it leads.
        until = time.monotonic() + START_MAX
        while subprocess.run([fencepost, "ls", "--server", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            if time.monotonic() > until:
                sys.exit("the server does not answer")
        yield address, server, redis


def nodes(program, sizes):
    # All sizes run in turn, because the minutes on a machine differ.
    rounds = {count: [] for count in sizes}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(ROUNDS):
            for count in sizes:
                with server_of_nodes(program, count, directory) as (address, server, redis):
                    figures = {}
                    for workload in ["pairs", "handoff"]:
                        before = cpu([server]), cpu(redis)
                        figures[workload] = run(program, ["--server", address], workload, connections=8, duration="3s")
                        figures[workload]["server"], figures[workload]["redis"] = cpu([server]) - before[0], cpu(redis) - before[1]
                    rounds[count].append(figures)

    def median(count, workload, name):
        values = [figures[workload].get(name) for figures in rounds[count]]
        return statistics.median(value for value in values if value is not None) if any(values) else None

    def rows():
        for count in sizes:
            cells = []
            for workload in ["pairs", "handoff"]:
                rate = median(count, workload, "rate_per_s")
                least = [figures[workload].get("rate_per_s", 0) / (rounds[sizes[0]][at][workload].get("rate_per_s") or 1) for at, figures in enumerate(rounds[count])]
                cells += [f"{rate:,.0f}" if rate else "-", f"{statistics.median(least):.2f} ({min(least):.2f} to {max(least):.2f})",
                          shown({"p50": median(count, workload, "p50_us")}, "p50"),
                          shown({"it": median(count, workload, "redis") / (median(count, workload, "server") or 1)}, "it")]
            yield [str(count), *cells]
    heads = ["a second", f"of {sizes[0]}", "p50, µs", "CPU of all Redis by that of the server"]
    table("Nodes, 64 clients over eight connections: pairs, then hand-offs", ["nodes", *heads, *heads], rows())


def main():
    words, largest = sys.argv[1:], float("inf")
    if "--up-to" in words[:-1]:
        at = words.index("--up-to")
        largest = int(words[at + 1])
        del words[at : at + 2]
    unknown = [word for word in words[1:] if word not in SIZES]
    if not words or unknown:
        sys.exit(__doc__.strip())
    for name in words[1:] or SIZES:
        sizes = [size for size in SIZES[name] if size <= largest]
        globals()[name](words[0], sizes)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Run commands to every kind of end and tell the ends apart by the result alone.

usage: endings.py PINFOLD DIRECTORY [cgroup]

DIRECTORY is empty and the caller's. With "cgroup" the limits that need one are
tried too; without, they must be unavailable.
"""

import json
import os
import re
import signal
import subprocess
import sys

PINFOLD, HOME = sys.argv[1], sys.argv[2]
CGROUP = "cgroup" in sys.argv[3:]
WORKSPACE = os.path.join(HOME, "ws")
ENV = {"HOME": HOME, "PATH": os.environ["PATH"], "XDG_CONFIG_HOME": HOME + "/config"}


def name_of(r):
    """What became of a launch, from its result and nothing else."""
    hits = {l["name"] for l in r.get("limits", []) if l["hits"]}
    reason = r["reason"]
    if reason == "exited":
        what = "success" if r["exit"] == 0 else "failed %d" % r["exit"]
        return what + "".join(" despite " + n for n in sorted(hits - {"cpus"}))
    if reason == "signaled":
        return "file_size" if "file_size" in hits else "killed by " + r["signal"]
    if reason == "timeout":
        return ("idle" if "idle_timeout" in hits else "timeout") + " after " + r["stop"]
    if reason in ("refused", "unavailable"):
        if "not_run" in r:
            return r["not_run"]["code"]
        return "%s: %s %s" % (reason, r["refusal"]["code"], r["refusal"].get("subject", ""))
    return reason


def run(limits=None, argv=("true",), flags=(), policy=None, during=None):
    document = {"version": 1, "write": ["{workspace}"], "limits": limits or {}}
    document.update(policy or {})
    path = os.path.join(HOME, "policy.json")
    with open(path, "w") as f:
        json.dump(document, f)
    read, write = os.pipe()
    command = [PINFOLD, "wrap", "--quiet", "--workspace", WORKSPACE, "--state", HOME + "/state", "--policy", path]
    command += ["--result", "fd:%d" % write, *flags, "--", *argv]
    out = subprocess.PIPE if during else subprocess.DEVNULL
    p = subprocess.Popen(command, pass_fds=[write], env=ENV, stdout=out, stderr=subprocess.DEVNULL, cwd=WORKSPACE)
    os.close(write)
    if during:
        during(p)
    with os.fdopen(read) as f:
        result = json.load(f)
    if p.wait() != result["exit"] and p.returncode >= 0:
        sys.exit("pinfold exited with %d, and the result says %d" % (p.returncode, result["exit"]))
    return name_of(result)


def interrupt(p):
    p.stdout.readline()  # the command is up
    p.send_signal(signal.SIGTERM)


def sh(text):
    return ("sh", "-c", text)


def killed(name):
    """The ending by a signal. Linux tells how a process ended that isn't a
    child since 6.15; before, it is the exit code that shells give it."""
    if TELLS_SIGNALS:
        return "killed by " + name
    return "failed %d" % (128 + getattr(signal, name))


TELLS_SIGNALS = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 15)

HOG = ("python3", "-c", "x = bytearray(600 << 20)")

CASES = [
    ("success", dict()),
    ("failed 7", dict(argv=sh("exit 7"))),
    ("failed 123", dict(argv=sh("exit 123"))),
    ("failed 124", dict(argv=sh("exit 124"))),
    ("failed 125", dict(argv=sh("exit 125"))),
    ("failed 126", dict(argv=sh("exit 126"))),
    ("failed 127", dict(argv=sh("no-such-command-inside"))),
    ("failed 137", dict(argv=sh("exit 137"))),
    (killed("SIGKILL"), dict(argv=sh("kill -KILL $$"))),
    (killed("SIGSEGV"), dict(argv=sh("kill -SEGV $$"))),
    (killed("SIGTERM"), dict(argv=sh("kill -TERM $$"))),
    ("file_size" if TELLS_SIGNALS else "failed 153 despite file_size", dict(limits={"file_size": "64k"}, argv=sh("exec head -c 200000 /dev/zero > big"))),
    ("failed 1 despite tmp", dict(limits={"tmp": "1m"}, argv=sh("head -c 9000000 /dev/zero > /tmp/x"))),
    ("timeout after term", dict(limits={"timeout": "500ms"}, argv=("sleep", "60"))),
    ("timeout after term", dict(flags=["--timeout", "500ms"], argv=("sleep", "60"))),
    ("timeout after kill", dict(flags=["--grace", "200ms"], limits={"timeout": "500ms"}, argv=sh("trap '' TERM; while :; do sleep 1; done"))),
    ("idle after term", dict(limits={"idle_timeout": "500ms"}, argv=("sleep", "60"))),
    ("success", dict(limits={"idle_timeout": "3s"}, argv=sh("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done"))),
    ("interrupted", dict(argv=sh("echo up; exec sleep 60"), during=interrupt)),
    ("not_found", dict(argv=("no-such-command",))),
    ("not_executable", dict(argv=("./plain",))),
    ("refused: policy_invalid", dict(policy={"rite": []})),
    ("refused: write_missing " + HOME + "/missing", dict(policy={"write": [HOME + "/missing"]})),
    ("refused: limit_above_ceiling limits.files", dict(limits={"files": 999999})),
    ("refused: bad_usage ", dict(flags=["--timeout", "soon"])),
    ("unavailable: requirement_unmet landlock>=99", dict(policy={"require": ["landlock>=99"]})),
    ("unavailable: requirement_unmet magic", dict(flags=["--require", "magic"])),
]

CGROUP_CASES = [
    ("oom", dict(limits={"memory": "64m"}, argv=HOG)),
    ("failed 3 despite memory", dict(limits={"memory": "64m"}, argv=sh("python3 -c 'x = bytearray(600 << 20)'; exit 3"))),
    ("failed 4 despite pids", dict(limits={"pids": 8}, argv=sh("(for i in 1 2 3 4 5 6 7 8 9; do sleep 3 & done) 2>/dev/null || exit 4"))),
    ("success", dict(limits={"cpus": 0.5, "memory": "512m", "pids": 64})),
    ("success", dict(policy={"require": ["cgroup_limits"]})),
]

UNAVAILABLE = [
    ("unavailable: limit_unavailable limits.memory", dict(limits={"memory": "64m"})),
    ("unavailable: limit_unavailable limits.cpus", dict(limits={"cpus": 1})),
    ("unavailable: limit_unavailable limits.pids", dict(limits={"pids": 9})),
]


def main():
    os.makedirs(WORKSPACE)
    os.makedirs(HOME + "/config/pinfold")
    with open(HOME + "/config/pinfold/config.json", "w") as f:
        json.dump({"ceilings": {"files": 10000}}, f)
    with open(WORKSPACE + "/plain", "w") as f:
        f.write("no program\n")
    wrong = 0
    for want, how in CASES + (CGROUP_CASES if CGROUP else UNAVAILABLE):
        got = run(**how)
        # Which path a bad document is about is the document's name.
        if got != want and not (want.endswith("_invalid") and got.startswith(want)):
            print("got %r, wanted %r for %r" % (got, want, how))
            wrong += 1
    print("%d endings, %d wrong" % (len(CASES) + len(CGROUP_CASES if CGROUP else UNAVAILABLE), wrong))
    sys.exit(1 if wrong else 0)


main()

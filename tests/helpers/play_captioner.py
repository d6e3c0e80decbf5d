"""A stand-in for `densevid caption` in the tests of the queue: the same protocol, and every way to fail.

python play_captioner.py MODE VIDEO OUT [FLAGS]

In the mode `held` it waits half-way for a file `go`, in OUT or in the folder that holds OUT.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

mode, video, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])


def report(stage: str, done: float) -> None:
    print(json.dumps({"stage": stage, "done": done}), file=sys.stderr, flush=True)


def started() -> int:
    """How often this was started for this video, counting this time."""
    marks = out / "starts"
    with marks.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return len(marks.read_text().split())


(out / "flags").write_text(" ".join(sys.argv[4:]))
times = started()
report("decode", 0.5)
report("features", 0.25)
if mode == "hang" or (mode == "hang-once" and times == 1):
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    (out / "child.part").write_text(str(child.pid))
    (out / "child.part").rename(out / "child")  # whole, or not there: tests wait for it and read it at once
    signal.pause()
elif mode == "held":
    while not any((folder / "go").exists() for folder in (out, out.parent)):
        time.sleep(0.01)
elif mode == "bad":
    print(f"densevid: {video}: holds only sound, there is nothing to see in it", file=sys.stderr)
    raise SystemExit(2)
elif mode == "crash":
    raise RuntimeError("a mistake of ours")
elif mode == "empty":
    raise SystemExit(0)
elif mode == "chatter":
    print("x" * 1_000_000, file=sys.stderr, flush=True)
    print('{"stage": "sentences"}\n{"stage": 3, "done": 1}\n{"stage": "decode", "done": 0.1}\n[]\n{', file=sys.stderr)
elif mode == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
report("sentences", 1.0)
for ending in ("html", "json", "vtt"):
    (out / f"{video.stem}.densevid.{ending}").write_text(f"the {ending} of {video.stem}")

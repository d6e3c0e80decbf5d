"""Start a command that dies with its parent: `python launch.py PARENT COMMAND...`, the first step of every job.

A server that is killed outright cannot stop its jobs, so each job has the kernel end it, and then becomes the command.
PARENT is the process id of the server: if it has died already, nothing is started. The file runs by path, without the
package, as it imports nothing of it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
NICENESS = 5  # the server answers before its jobs work


def main(command: list[str], parent: int) -> None:
    """Tie this process to `parent`, leave no core file of a stranger's video, and become `command`."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before that
            raise SystemExit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICENESS)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[2:], int(sys.argv[1]))

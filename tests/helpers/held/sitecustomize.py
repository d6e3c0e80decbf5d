"""Python loads this first where its folder is on PYTHONPATH: `densevid caption` then waits for a file to begin.

So a test decides how long a job of a real server runs. See `helpers.running_server.served`.
"""

import os
import sys
import time
from pathlib import Path

if "caption" in sys.orig_argv:
    while not Path(os.environ["DENSEVID_TEST_GO"]).exists():
        time.sleep(0.01)

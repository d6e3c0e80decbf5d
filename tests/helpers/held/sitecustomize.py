"""Python loads this first where its folder is on PYTHONPATH: `densevid caption` then waits for a file to begin.

So a test decides how long a job of a real server runs. See `helpers.running_server.served`.
"""

import os
import sys
import time

if "caption" in sys.orig_argv:
    while not os.path.exists(os.environ["DENSEVID_TEST_GO"]):  # noqa: PTH110: pathlib would be loaded for every start
        time.sleep(0.01)

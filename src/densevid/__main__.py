"""`python -m densevid` is `densevid`."""

import sys

from densevid.cli import main

sys.exit(main())

"""`python -m dwell` is `dwell`."""

import sys

from dwell.cli import main

if __name__ == "__main__":
    sys.exit(main())

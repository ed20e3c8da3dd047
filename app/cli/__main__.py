"""`python -m interlock.app.cli`, as `hook install` writes it."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())

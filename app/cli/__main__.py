"""Entry point of `python -m interlock.app.cli`, the form that `hook install` writes."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m memcore`."""

from memcore.cli import main

raise SystemExit(main())

"""`python -m memcore`."""

from memcore.faces.cli import main

raise SystemExit(main())

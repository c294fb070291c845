"""Plans: from what somebody wants and has to configs that fit."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from memcore.faces.cli.command import DOES_NOT_FIT, FITS, Command, count, print_json
from memcore.faces.cli.describing import add_config, config_of
from memcore.faces.render.plans import plans_data, plans_text
from memcore.questions.planning.bench import HEADROOM
from memcore.questions.planning.plan import KEEP, plan
from memcore.questions.planning.rows import GOALS, QUALITIES


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given)
    parser.add_argument(
        "--goal", choices=GOALS, default="fine-tune", help="what a training job is for (default: fine-tune)"
    )
    parser.add_argument(
        "--quality", choices=QUALITIES, default="any", help="what a plan may give up: nothing, little, or any of it"
    )
    parser.add_argument(
        "--headroom", type=float, default=HEADROOM, metavar="SHARE",
        help=f"share of each GPU that stays free (default: {HEADROOM})",
    )  # fmt: skip
    parser.add_argument("--plans", type=count, default=KEEP, metavar="N", help=f"how many plans (default: {KEEP})")


def _plan(options: argparse.Namespace) -> int:
    found = plan(
        config_of(options), goal=options.goal, quality=options.quality, headroom=options.headroom, keep=options.plans
    )
    if options.json:
        print_json(plans_data(found))
    else:
        print(plans_text(found), end="")
    return DOES_NOT_FIT if found.none_because else FITS


COMMANDS: Mapping[str, Command] = {"plan": Command(_options, _plan)}

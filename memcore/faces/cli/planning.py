"""Plans: from what somebody wants and has to configs that fit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from memcore.config.engine import EngineSettings
from memcore.config.settings import MODEL, Config
from memcore.config.texts import from_texts
from memcore.config.training import Training
from memcore.errors import ConfigError
from memcore.faces.cli.calibrating import add_assumptions
from memcore.faces.cli.command import DOES_NOT_FIT, FITS, Command, count, positive, print_json, share, width
from memcore.faces.cli.describing import add_config, add_others, config_of, jobs_with
from memcore.faces.render.fitting import fitting_data, fitting_text
from memcore.faces.render.plans import plans_brief, plans_data, plans_text
from memcore.formats.tool import Tool
from memcore.messages import Message
from memcore.questions.planning.bench import HEADROOM
from memcore.questions.planning.fitting import WELL_KNOWN, fitting
from memcore.questions.planning.plan import KEEP, plan
from memcore.questions.planning.rows import GOALS, QUALITIES
from memcore.questions.planning.together import on_the_rest, plan_together
from memcore.tools import TOOLS, needed_by
from memcore.tools.sources import tool_brought

BRIEF = 3
"""Plans under an answer that does not fit."""


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given)
    add_others(parser)
    parser.add_argument("--goal", choices=GOALS, help="what a training job is for (default: fine-tune)")
    parser.add_argument(
        "--quality", choices=QUALITIES, default="any", help="model quality: keep the same, stay close, or any"
    )
    parser.add_argument(
        "--headroom", type=share, default=HEADROOM, metavar="FRACTION",
        help=Message("fraction of each GPU to leave free (default: {})", HEADROOM),
    )  # fmt: skip
    parser.add_argument(
        "--tokens", type=count, metavar="N", help="tokens to train on, such as 15T; adds days and GPU-hours"
    )
    parser.add_argument(
        "--batch-tokens", type=count, metavar="N",
        help="tokens of one optimizer step of the whole job, such as 4M",
    )  # fmt: skip
    parser.add_argument(
        "--price", type=positive, metavar="PRICE", help="price of a GPU-hour, in any currency; needs --tokens"
    )
    written = [name for name, tool in TOOLS.items() if not tool.read_only]
    parser.add_argument(
        "--to", choices=written, metavar="TOOL",
        help="tool to write plans for, as in `memcore convert` (default: your file's)",
    )  # fmt: skip
    add_assumptions(parser)
    parser.add_argument(
        "--plans", type=count, default=KEEP, metavar="N", help=Message("how many plans to show (default: {})", KEEP)
    )


def _plan(options: argparse.Namespace) -> int:
    asked = _models_asked(options)
    if asked is not None:
        return _print_models(asked, as_data=options.json)
    config, tool = config_of(options), _tool(options)
    others, taken = jobs_with(options, config), int(options.taken * 2**30)
    left = on_the_rest(config, taken) if taken and not others else config
    if others or left is None:
        return _print_together([config, *others.values()], taken, as_data=options.json)
    found = plan(
        _run_by(options.to, left), goal=options.goal or "fine-tune", quality=options.quality,
        headroom=options.headroom, keep=options.plans, rates=dict(options.assume), tool=tool.name if tool else None,
        batch_tokens=options.batch_tokens,
    )  # fmt: skip
    if options.price is not None and options.tokens is None:
        raise ConfigError.at("--price", "a price needs a number of tokens; add --tokens, such as --tokens 300B")
    if options.json:
        print_json(plans_data(found, options.tokens, options.price, tool))
    else:
        print(plans_text(found, options.tokens, options.price, width(), tool), end="")
    return DOES_NOT_FIT if found.none_because else FITS


def _models_asked(options: argparse.Namespace) -> Config | None:
    """Return the GPUs of a question about the models that they run; None of any other."""
    from memcore.faces.goals.sentences import asks_for_models  # noqa: PLC0415 - most jobs are files, names and flags

    texts = asks_for_models(options.config[0]) if len(options.config) == 1 else {}
    return from_texts({**texts, MODEL: WELL_KNOWN[0]}) if texts else None


def _print_models(hardware: Config, *, as_data: bool) -> int:
    """Print the models that some GPUs run."""
    found = [*fitting(hardware)]
    if as_data:
        print_json(fitting_data(found))
    else:
        print(fitting_text(found, hardware, width()), end="")
    return FITS if found else DOES_NOT_FIT


def _print_together(jobs: Sequence[Config], taken: int, *, as_data: bool) -> int:
    """Print how several jobs fit on the same GPUs."""
    from memcore.faces.render.together import together_data, together_text  # noqa: PLC0415 - of several jobs alone

    found = plan_together(*jobs, taken=taken)
    if as_data:
        print_json(together_data(found))
    else:
        print(together_text(found, width()), end="")
    return DOES_NOT_FIT if found.none_because else FITS


def _run_by(to: str | None, config: Config) -> Config:
    """Return the config with the engine and the layers of the tool that plans are to be written for.

    What the config says itself stays.
    """
    tool = TOOLS.get(to or "")
    if tool is None or config.get(EngineSettings.type) or config.get(Training.implementation):
        return config
    return config.changed({path: value for path, value in needed_by(tool).items() if config.get(path) is None})


def _tool(options: argparse.Namespace) -> Tool | None:
    """The tool that plans are written for: the one asked for, or the one whose file the job came in."""
    if options.to is not None:
        return TOOLS[options.to]
    return tool_brought(options.sources) if options.sources else None


def print_brief(config: Config, heading: str = "cli-ways") -> None:
    """Print what follows an answer that does not fit: plans that do."""
    sys.stdout.flush()
    print("", *plans_brief(plan(config, keep=BRIEF), heading), sep="\n")


COMMANDS: Mapping[str, Command] = {"plan": Command(_options, _plan)}

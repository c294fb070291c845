"""Links are for ever: every spelling that any version ever wrote decodes to what it meant.

tests/truth/links.json has a link for each setting, each listed value and each former name, with its config, and the
checkpoint of each nickname. `MEMCORE_GOLDEN=write python -m pytest tests/test_links.py` adds what is new; what is
there never changes.
"""

import json
import os

import pytest
from conftest import TRUTH, truth

from memcore.config.adapted_layers import LayerNumbers, Ranks
from memcore.config.kinds import ModelName, Names, Number, Text, Version
from memcore.config.pipelines import Layout
from memcore.config.settings import SETTINGS, Config
from memcore.config.texts import FLAGS
from memcore.config.url import FORMER, VERSION, decode_fragment, encode_fragment, read_fragment
from memcore.errors import ConfigError
from memcore.networks.catalog import catalog, full_name, nickname
from memcore.servers.llamacpp.tensor_types import TensorTypes

FROZEN = truth("links")
LISTED = [(path, value) for path, setting in SETTINGS.items()
          for value in (*getattr(setting.kind, "options", ()), *getattr(setting.kind, "titles", ()))]  # fmt: skip
"""Every value that a setting lists, with its path."""


def linked(path, value):
    """The link of a job with one setting beside the model."""
    return encode_fragment(Config.from_dict({"model": "gpt2"}).replaced(path, value))


def sample(kind):
    """A value of a kind that lists none."""
    words = {Layout: [4, 3], ModelName: "gpt2", Names: "q_proj", Number: getattr(kind, "maximum", 1), Text: "0.16.0",
             TensorTypes: "token_embd=q8_0", Ranks: "q_proj=4", LayerNumbers: [0, 2]}  # fmt: skip
    if type(kind) in words:
        return words[type(kind)]
    return kind.parse("2" if isinstance(kind, Version) else str(max(getattr(kind, "minimum", 1), 1)))


def current():
    """Links as they are written now, at least one for each setting."""
    listing = {path for path, _ in LISTED}
    jobs = [*LISTED, *((path, sample(each.kind)) for path, each in SETTINGS.items() if path not in listing)]
    return {
        linked(path, value): Config.from_dict({"model": "gpt2"}).replaced(path, value).to_dict() for path, value in jobs
    }


def names(link):
    """The short names in a link."""
    return {part.partition("=")[0] for part in link.split("&")[1:]}


@pytest.fixture(scope="module", autouse=True)
def frozen():
    """What is new is added where that is asked for."""
    if os.environ.get("MEMCORE_GOLDEN") == "write":
        links = {**{link: config for link, config in current().items() if not known(link)}, **FROZEN["links"]}
        models = {**{nickname(each): each for each in catalog()}, **FROZEN["models"]}
        FROZEN.update(links=dict(sorted(links.items())), models=dict(sorted(models.items())))
        rows = [
            ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in FROZEN[part].items())
            for part in FROZEN
        ]
        text = ",\n".join(f"{json.dumps(part)}: {{\n{found}\n}}" for part, found in zip(FROZEN, rows, strict=True))
        (TRUTH / "links.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def known(link):
    """Whether a setting is frozen: with this value where it lists its values, with any else."""
    *_, last = link.split("&")
    listing = {SETTINGS[path].flag for path, _ in LISTED}
    name = last.partition("=")[0]
    return link in FROZEN["links"] if name in listing else any(name in names(each) for each in FROZEN["links"])


def test_every_link_means_what_it_meant():
    """Each link decodes to its config, and so does what is written for that today."""
    assert {
        link for link, config in FROZEN["links"].items() if read_fragment(link).config != Config.from_dict(config)
    } == set()
    again = {link: encode_fragment(decode_fragment(link)) for link in FROZEN["links"]}
    assert {link for link, now in again.items() if decode_fragment(now) != decode_fragment(link)} == set()
    assert {name for link, now in again.items() for name in names(link) - names(now)} == set(FORMER)


def test_every_spelling_is_frozen():
    """A new setting or value has its link in the list from the start."""
    assert {name for link in FROZEN["links"] for name in names(link)} == {*FLAGS, *FORMER}
    assert [link for link in current() if not known(link)] == []


def test_nicknames_keep_their_checkpoint():
    """A link names the same weights for ever."""
    assert {name for name, hub_id in FROZEN["models"].items() if full_name(name) != hub_id} == set()
    assert {nickname(hub_id) for hub_id in catalog()} == set(FROZEN["models"])


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("v1&model=gpt2&seq=8192&seq=4096", "link: seq: given twice"),
        ("v1&model=gpt2&engine-version=2&fsdp-version=2", "link: fsdp-version: given twice"),
        ("v1&model=gpt2&se", "link: se: has no value; the link may be cut off: copy it again"),
        ("v1&model=gpt2&seq", "link: seq: has no value; the link may be cut off: copy it again"),
        ("v1&model=a%2", "link: model: found '%2'; expected % and two hexadecimal digits, and %25 for a percent sign"),
        ("v1&model=gpt2&gpu-memory-utilization=90%", "link: gpu-memory-utilization: found '%'; expected % and two hexadecimal digits, and %25 for a percent sign"),
        ("v1&model=%ff%fe", "link: model: its percent escapes are not UTF-8; the link may be cut off: copy it again"),
        ("v1&model=%E4%B8", "link: model: its percent escapes are not UTF-8; the link may be cut off: copy it again"),
        ("v1&model=deflate:eJwlyTEKgDAQBMC_", "model: the model in the link is damaged; the link may be cut off: copy it again"),
        ("v1&model=gpt2&quantization=fp5", "inference.quantization: found 'fp5', which is not one of 108 known weight formats"),
        ("v2&model=gpt2&seq=8192", "link: found version 'v2'; this memcore is older and reads 'v1': reload the page or update it"),
        ("https://example.org/#v12&anything", "link: found version 'v12'; this memcore is older and reads 'v1': reload the page or update it"),
        ("v1" + "&a=1" * 501, "link: found 501 settings; expected at most 500"),
        ("v0&model=gpt2", "link: found version 'v0'; expected 'v1'; copy the whole link"),
        ("1&model=gpt2", "link: found version '1'; expected 'v1'; copy the whole link"),
        ("v1%26model=gpt2", "link: found version 'v1%26model=gpt2'; expected 'v1'; copy the whole link"),
        ("v1&model=gpt2&warp=9", "link: warp: unknown key; a newer memcore may know it (did you mean 'wrap'?)"),
    ],
)  # fmt: skip
def test_links_that_cannot_be_read(link, message):
    """What was found, what is expected, and what to do."""
    with pytest.raises(ConfigError) as caught:
        decode_fragment(link)
    assert str(caught.value).splitlines()[0].partition(" (did you mean 'fp")[0] == message


@pytest.mark.parametrize(
    ("link", "config", "newer"),
    [
        (
            "v1&model=gpt2&seq=8192&seq=4096&micro-batch=2",
            {"training": {"sequence_length": 8192, "micro_batch_size": 2}},
            False,
        ),
        ("v1&model=gpt2&seq=8192&warp=9", {"training": {"sequence_length": 8192}}, True),
        ("v1&model=gpt2&seq=ten&micro-batch=2", {"training": {"micro_batch_size": 2}}, False),
        ("v1&model=gpt2&micro-batch=2&seq=81%", {"training": {"micro_batch_size": 2}}, False),
        ("v1&seq=8192", None, False),
        ("v1&model=deflate:xyz&seq=8192", None, False),
        (f"v{int(VERSION[1:]) + 1}&model=gpt2", None, True),
        ("v0&model=gpt2", None, False),
    ],
)
def test_what_is_understood_of_a_damaged_link(link, config, newer):
    """The rest of a link still counts, and it says whether a newer memcore may know more."""
    found = read_fragment(link)
    assert found.config == (None if config is None else Config.from_dict({"model": "gpt2", **config}))
    assert found.newer == newer
    assert found.problems

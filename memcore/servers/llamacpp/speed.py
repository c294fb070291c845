"""How fast llama.cpp's steps are: what a token reads from GPUs and from the host, and what its kernels take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from memcore.networks.parts import Experts
from memcore.servers.llamacpp.plan import HOST, Layout
from memcore.serving.job import Kernels, Pace, Reads, ServingJob

_LOOKED_UP = ("token_embd.", "per_layer_token_embd.", "rope_")
_FEW = 4
"""Sequences up to which published rates with experts are as if each token chose at random: eight of them on a GB10 read
as few as six (benches/dgx-spark.md), 32 as few as 12."""

_APPLE = {"apple7": 1.6, "apple8": 1.3, "apple9": 1.2, "apple10": 0.7}
"""Seconds of a layer's kernels over those of an M4, by GPU family: Llama 2 7B's 205 µs on an M1 Ultra, 163 on an M2
Ultra, 171 on an M3 Ultra, 123 on an M4 Pro, both of one family, and 84 on an M5 Max (ggml-org/llama.cpp, discussion
4167)."""
_TENSORS = "apple10"
"""The first family with units for products of matrices, of whose prompts one rate is known: 1.9 times what others reach
(ggml-org/llama.cpp, pull request 16634). Theirs is fitted to an M1 Max (brand-o/normiebench, issue 40) and an M2 Ultra
(ggml-org/llama.cpp, pull request 15616); with experts prompts take 1.4 times as long, which is in the range."""
_RATES = Pace(
    late=Kernels(share=0.88, layer=20e-6, experts=65e-6, latent=80e-6, recurrent=140e-6),
    former=Kernels(share=0.88, layer=30e-6, experts=65e-6, latent=80e-6, recurrent=140e-6),
    others={
        "12.1": Kernels(share=0.77, layer=20e-6, latent=80e-6, recurrent=140e-6),
        **dict.fromkeys(
            ("gfx1100", "gfx1101", "gfx1102", "gfx1151"),  # RDNA 3
            Kernels(share=0.88, layer=70e-6, experts=10e-6, latent=30e-6, recurrent=70e-6),
        ),
        **{
            family: Kernels(
                share=0.9,
                layer=times * 80e-6,
                experts=times * 50e-6,
                latent=times * 75e-6,
                recurrent=times * 160e-6,
                prompts=None if family == _TENSORS else 0.7,
            )
            for family, times in _APPLE.items()
        },
    },
    stacked=0.55,
    oldest=(7, 5),
    latent=0,
    recurrent=(0.75, 1.45),
)
"""As published rates have it: shares and seconds are fitted to half of them, the other half tests them; those of latent
attention are fitted to five rates of the latter, which were 4 to 30 % lower without.

NVIDIA's cards: ggml-org/llama.cpp, pull requests 15131, 17505, 17891 and 24216, with experts 16834; stacked memory:
XiongjieDai/GPU-Benchmarks-on-LLM-Inference. GB10, where recurrent states were measured, too: benches/dgx-spark.md and
AlexsJones/llmfit, llmfit-core/data/community, which also has an M4 Pro, an RX 7900 XT and an RTX 2080: with that card's
bandwidth its eleven models are 14 % off in the median, nine more with layers or experts on the host 6 %. Prompts go at
22 to 95 % of the peak of NVIDIA's, which no rule explains: nothing is said of them.
"""


def pace(plan_of: Callable[[ServingJob], Layout]) -> Pace:
    """Return published rates, given how a job's layers are placed."""
    return replace(_RATES, reads=lambda job: reads(plan_of(job)), uncovered=lambda job: uncovered(plan_of(job)))


def reads(plan: Layout) -> Reads:
    """Return the bytes of weights that a token passes; GPUs that have layers in turn are added up."""
    found = Counter[tuple[bool, bool]]()
    placed = [each for each in plan.placed() if not each[0].name.startswith(_LOOKED_UP)]
    if not any(tensor.name == "output.weight" for tensor, _ in placed):  # a tied head that the host computes
        placed += [(tensor, HOST) for tensor in plan.tensors if tensor.name == "token_embd.weight"]
    for tensor, device in placed:
        if ".nextn." not in tensor.name:
            found[device == HOST, "_exps." in tensor.name] += tensor.bytes
    return Reads(
        device=found[False, False],
        experts=found[False, True],
        host=found[True, False],
        host_experts=found[True, True],
    )


def uncovered(plan: Layout) -> str | None:
    """Return the key of a sentence on what published rates do not cover."""
    flags = plan.flags
    if flags.flash is False:
        return "pace-unknown-flash"
    if flags.cache_on_host:
        return "pace-unknown-cache"
    if flags.gpus > 1 and flags.split not in ("layer", "none"):
        return "pace-unknown-split"
    has_experts = any(isinstance(ffn, Experts) for layer in plan.layers for ffn in layer.ffns)
    return "pace-unknown-users" if has_experts and flags.sequences > _FEW else None

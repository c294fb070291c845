"""Losses of preference and reinforcement learning over a model's logits, and the passes of reference models.

Sources: trl 1.10, trainer/dpo_trainer.py (`_compute_loss`), trainer/kto_trainer.py (`compute_ref_log_probs`,
`_compute_kl_logps`), trainer/grpo_trainer.py (`_get_per_token_logps_and_entropies`), trainer/reward_trainer.py
(`compute_loss`), trainer/utils.py (`selective_log_softmax`, `entropy_from_logits`); accelerate, utils/operations.py
(`convert_outputs_to_fp32`); LLaMA-Factory 0.9.6, train/dpo/trainer.py (`concatenated_forward`),
train/trainer_utils.py (`get_batch_logps`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

from memcore.layers.losses import cross_entropy, log_softmax
from memcore.symbols import Axis, Quotient, Shape, Shifted
from memcore.tensors.altered import divide_part
from memcore.tensors.autograd import attach, save, tracked
from memcore.tensors.basics import clone, contiguous, like, narrow, new, only, split, to, view
from memcore.tensors.operations import add, add_scalar, dropout, mul, scale, softmax, sub
from memcore.tensors.running import exp
from memcore.tensors.tensor import Tape, Tensor
from memcore.trace.recipe import Objective
from memcore.trace.step import Batch, Step

Outputs = Callable[[Step, Batch, "Axis | None"], Tensor]
"""A model's forward pass to the logits of its last tokens; None: of all."""
Head = Callable[[Step, Tensor], Tensor]
"""The output head over hidden states."""
_COMPLETION = "nc"


def objective_loss(step: Step, batch: Batch, outputs: Outputs, head: Head) -> tuple[Tensor, object]:
    """Return the loss of one micro-batch, whose sequences are pairs where a method compares them."""
    objective = step.recipe.objective or Objective(method="")
    if objective.fused:
        return _fused(step, batch, outputs, objective), None
    if objective.scores:
        return summed(_forward(step, batch, outputs, objective)), None
    if objective.taught:
        return _TAUGHT[objective.taught](step, batch, outputs, objective)
    if objective.distills:
        return _distilled(step, batch, outputs, head), None
    if objective.proximal:
        return _proximal(step, batch, outputs, objective)
    mismatched = None
    if objective.divergence:
        with step.tape.no_grad():
            mismatched = _forward(step, batch, outputs, objective)
            _scored(mismatched, objective)
    step.tape.enter("forward", "inputs")
    logits = _forward(step, batch, outputs, objective)
    kept: list[Tensor] = [logits] if mismatched is None else [mismatched, logits]
    with step.tape.at("loss"):
        tempered = _tempered(logits, objective)
        scores = [_scored(tempered, objective), *([_entropies(tempered)] if objective.entropy else [])]
    if objective.reference:
        kept += _referred(step, batch, outputs, objective)
    step.tape.enter("loss", "objective")
    with step.tape.at("loss"):
        loss = reduce(add, map(summed, scores))
        if objective.supervised:
            loss = add(loss, _supervised(logits, batch))
        if objective.measures:
            _measure(tempered, objective)
    return loss, None


def _tempered(logits: Tensor, objective: Objective) -> Tensor:
    """Logits over a temperature, those of the answers where no kernel takes all.

    Source: trl, trainer/grpo_trainer.py (`logits / self.temperature`; from 1.0 to 1.9 `logits.div_`); verl 0.8,
    workers/actor/dp_actor.py (`logits_rmpad.div_`, of what `squeeze` sees).
    """
    if not objective.tempered:
        return logits
    if objective.tempered == "in-place":
        return divide_part(logits, 1, _COMPLETION if objective.completes else logits.shape[1])
    answers = objective.completes and not objective.flash
    return scale(narrow(logits, 1, _COMPLETION) if answers else logits, "div")


def _fused(step: Step, batch: Batch, outputs: Outputs, objective: Objective) -> Tensor:
    """Liger's chunked losses, compiled: logits of one pair and their gradients, and those of the reference.

    Source: liger_kernel 0.6, chunked_loss/fused_linear_preference.py (chunks of one pair; gradients of hidden states
    and of the head, a frozen one too, are made in the forward pass, the head's once more for each chunk before it is
    added), fused_linear_ppo.py (the same of one answer; 0.8: `_selective_logprob_backward`, whose tiles of 4,096 words
    are gone when the gradient of the head is cast).
    """
    hidden = _forward(step, batch, outputs, objective)
    kept = _hidden_of_reference(step, batch, outputs, objective)
    weight = step.weights[f"{step.recipe.network.embedding_and_head.head.name}.weight"]
    tape, length = hidden.tape, _COMPLETION if objective.completes else hidden.shape[1]
    step.tape.enter("loss", "objective")
    with tape.at("loss"):
        learns = tracked(weight)
        needs = learns or objective.learns_head
        results = [like(hidden, "fused_loss_gradient")]
        results += [new(tape, weight.shape, weight.dtype, "fused_loss_gradient")] if needs else []
        if objective.streams_words:
            to(new(tape, weight.shape, "fp32", "weight_gradient"), weight.dtype)
        else:
            rows: Shape = (2 if objective.pairs else 1, length, *weight.outer)
            made = [new(tape, rows, hidden.dtype, "linear") for _ in range(3 if kept else 2)]
            made += [new(tape, weight.shape, weight.dtype, "weight_gradient")] if needs else []
            del made
        loss = new(tape, (), "fp32", "fused_loss")
        attach([loss], [hidden, weight], save(tape, *results), lambda g, s: [s[0], s[1] if learns else None])
    return loss


def _hidden_of_reference(step: Step, batch: Batch, outputs: Outputs, objective: Objective) -> list[Tensor]:
    """Return the reference's last hidden states; none where nothing is compared with."""
    return _referred(step, batch, outputs, replace(objective, upcasts=False)) if objective.reference else []


def _proximal(step: Step, batch: Batch, outputs: Outputs, objective: Objective) -> tuple[Tensor, object]:
    """PPO's loss of tokens and values; `torch.cat` copies the logits, and the caller holds the copy to the end.

    The graph of the entropies, which nothing learns from, lives until the loss exists. Source: trl 0.9.6,
    trainer/ppo_trainer.py (`step`, `loss`), core.py (`logprobs_from_logits`, `entropy_from_logits`); LLaMA-Factory
    0.9.6, train/ppo/trainer.py (`batched_forward_pass`).
    """
    tape = step.tape
    logits = _forward(step, batch, outputs, objective)
    shorter = Shifted(logits.shape[1], -1, 1)
    with tape.at("loss"):
        scores = _from_all(narrow(logits, 1, shorter))
        copied = like(logits, "cat")
    del logits
    step.tape.enter("loss", "objective")
    with tape.at("loss"):
        rows: Shape = (copied.shape[0], shorter, *copied.shape[2:])
        probabilities = new(tape, rows, "fp32", "softmax")
        for rule in ("exp", "mul"):
            new(tape, rows, "fp32", rule)
        del probabilities
        loss = summed(scores)
        if step.values is not None:
            loss, step.values = add(loss, summed(step.values)), None
    return loss, copied


def _distilled(step: Step, batch: Batch, outputs: Outputs, head: Head) -> Tensor:
    """Return the divergence from a frozen teacher, and the cross-entropy, both of all tokens or chunk after chunk.

    The teacher's forward pass is one block of its largest moment, which its logits outlive. Source: torchtune 0.6.1,
    recipes/knowledge_distillation_*.py (`_loss_step`), modules/loss/kd_losses.py (`ForwardKLLoss`,
    `ForwardKLWithChunkedOutputLoss`).
    """
    tape, loss = step.tape, step.recipe.loss
    hidden = _forward(step, batch, outputs, Objective(method=""))
    chunks = loss.chunks if loss.kind == "chunked" else 1
    part: Shape = (hidden.shape[0], Quotient((hidden.shape[1],), chunks))
    states = split(hidden, (*part, *hidden.shape[2:]), chunks, cut=1) if chunks > 1 else [hidden]
    students = [head(step, state) for state in states]
    del states, hidden
    step.tape.enter("loss", "teacher")
    with tape.no_grad():
        passing = new(tape, ("tf",), "bool", "teacher_forward")
        teachers = [like(each, "linear") for each in students]
        del passing
    step.tape.enter("loss", "objective")
    with tape.at("loss"):
        total = new(tape, (), "fp32", "sum")
        for student, teacher in zip(students, teachers, strict=True):
            total = add(total, _divergence(student, teacher))
        labels = split(batch.labels, part, chunks, cut=1) if chunks > 1 else [batch.labels]
        for student, targets in zip(students, labels, strict=True):
            flat = targets if targets.mergeable(0, 2) else clone(targets)
            total = add(total, cross_entropy(to(student, "fp32"), flat))
    return total


def _generalized(step: Step, batch: Batch, outputs: Outputs, objective: Objective) -> tuple[Tensor, object]:
    """Return the generalized Jensen-Shannon divergence from a frozen teacher, in fp32 and of all tokens at once.

    Source: trl 1.9, experimental/gkd/gkd_trainer.py (`compute_loss`, `generalized_jsd_loss`).
    """
    tape = step.tape
    student = _forward(step, batch, outputs, objective)
    teacher = _taught(step, student, "fp32")
    step.tape.enter("loss", "objective")
    with tape.at("loss"):
        shorter = Shifted(student.shape[1], -1, 1)
        loss = _jensen(narrow(student, 1, shorter), narrow(teacher, 1, shorter))
    return loss, None


def _taught(step: Step, student: Tensor, dtype: str) -> Tensor:
    """Return the logits of a frozen teacher, computed in the student's precision, in another dtype."""
    step.tape.enter("loss", "teacher")
    with step.tape.no_grad():
        passing = new(step.tape, ("tf",), "bool", "teacher_forward")
        logits = like(student, "linear", step.recipe.precision.autocast or step.recipe.precision.compute)
        del passing
        return to(logits, dtype)


def _jensen(student: Tensor, teacher: Tensor) -> Tensor:
    """`generalized_jsd_loss`, whose local variables live until it returns."""
    tape = student.tape
    student, teacher = scale(student, "div"), scale(teacher, "div")
    own = log_softmax(student)
    with tape.no_grad():
        taught = log_softmax(teacher)
    mixture = _mixed([add_scalar(own), add_scalar(taught)])
    from_teacher = _kl(mixture, taught)
    from_student = _kl(mixture, own)
    total = add(scale(from_teacher), scale(from_student))
    full = total.shape
    chosen = like(total, "gather")  # what a mask leaves
    loss = new(tape, (), "fp32", "sum")

    def gradients(given: list[Tensor | None], saved: list[Tensor]) -> list[Tensor | None]:
        spread = new(tape, full, "fp32", "mul_backward")
        found = new(tape, full, "fp32", "gather_backward")
        del spread
        return [found]

    if tracked(total):
        attach([loss], [total], [], gradients)
    del total, chosen, from_teacher, from_student, mixture, own, taught, student, teacher
    return loss


def _in_chunks(step: Step, batch: Batch, outputs: Outputs, objective: Objective) -> tuple[Tensor, object]:
    """Return the generalized Jensen-Shannon divergence from a frozen teacher, computed 512 tokens at a time.

    What chunks save for the backward pass is counted of all tokens; what a chunk alone has is small next to it. Source:
    ms-swift 4.5, rlhf_trainers/gkd_trainer.py (`compute_loss`), gkd_loss.py (`gkd_loss`, `jsd_loss`).
    """
    tape = step.tape
    student = _forward(step, batch, outputs, objective)
    teacher = _taught(step, student, student.dtype)
    step.tape.enter("loss", "objective")
    with tape.at("loss"):
        loss = _summed_chunks(student, teacher)
    return loss, (student, teacher)


def _summed_chunks(student: Tensor, teacher: Tensor) -> Tensor:
    """`gkd_loss`: both models' logits are selected and divided by a temperature; gradients of slices add up."""
    tape, shape, dtype = student.tape, student.shape, student.dtype
    own = _chosen(student)
    with tape.no_grad():
        theirs = scale(_chosen(teacher), "div")
    tempered = scale(own, "div")
    of_each = ("log_softmax", "logsumexp", "exp", "exp", "sub")
    """The student's log-probabilities, the mixture's, both probabilities, and the difference that one multiplies."""
    kept = [new(tape, (2, *shape), dtype, "cat"), *(new(tape, shape, dtype, rule) for rule in of_each)]
    loss = new(tape, (), dtype, "sum")

    def gradients(given: list[Tensor | None], saved: list[Tensor]) -> list[Tensor | None]:
        found = new(tape, shape, dtype, "log_softmax_backward")
        slice_of_one = new(tape, shape, dtype, "log_softmax_backward")
        del slice_of_one
        return [found]

    attach([loss], [tempered], save(tape, *kept), gradients)
    del own, theirs, tempered, kept
    return loss


def _mixed(terms: list[Tensor]) -> Tensor:
    """`torch.logsumexp(torch.stack(terms), dim=0)`; the list, which nobody else has, goes once it is stacked."""
    own = terms[0]
    tape, one, both = own.tape, own.shape, (2, *own.shape)
    stacked = new(tape, both, "fp32", "cat")
    if tracked(own):
        attach([stacked], [own], [], lambda g, s: [only(g)])
    del own, terms[:]
    with tape.no_grad():
        largest = new(tape, one, "fp32", "amax")
        exponentials = new(tape, both, "fp32", "exp")
        found = new(tape, one, "fp32", "logsumexp")
        del largest, exponentials

    def gradients(given: list[Tensor | None], saved: list[Tensor]) -> list[Tensor | None]:
        found = [new(tape, both, "fp32", rule) for rule in ("sub", "exp")][-1]
        found = new(tape, both, "fp32", "mul_backward")
        return [found]

    if tracked(stacked):
        attach([found], [stacked], save(tape, stacked, found), gradients)
    return found


def _kl(x: Tensor, target: Tensor) -> Tensor:
    """`F.kl_div(x, target, reduction="none", log_target=True)`: `exp(target) * (target - x)`."""
    return mul(exp(target), sub(target, x))


def _divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """`ForwardKLLoss`: the teacher's probabilities times the student's log-probabilities, without infinite ones."""
    tape, shape = student.tape, student.shape
    with tape.no_grad():
        probabilities = softmax(to(teacher, "fp32"))
    infinite = like(student, "shard_mask", "bool")
    logarithms = log_softmax(to(student, "fp32"))
    with tape.no_grad():
        product = mul(logarithms, probabilities)
        filled = like(product, "masked_fill")
        del product
    rows = new(tape, shape[:-1], "fp32", "sum")
    del filled

    def gradients(given: list[Tensor | None], saved: list[Tensor]) -> list[Tensor | None]:
        masked = new(tape, shape, "fp32", "masked_fill")
        found = new(tape, shape, "fp32", "mul_backward")
        del masked
        return [found]

    if tracked(logarithms):
        attach([rows], [logarithms], save(tape, probabilities, infinite), gradients)
    return summed(rows)


def _forward_kl(step: Step, batch: Batch, outputs: Outputs, objective: Objective) -> tuple[Tensor, object]:
    """Return the forward divergence from a frozen teacher and the cross-entropy, each of all logits in fp32.

    The teacher runs first; its logits and the model's are variables of the step until it ends. Source: NeMo Automodel
    0.5, recipes/llm/kd.py (`_forward_backward_step`), components/loss/kd_loss.py (`KDLoss.forward`).
    """
    tape = step.tape
    tape.enter("forward", "inputs")
    with tape.no_grad():
        passing = new(tape, ("tf",), "bool", "teacher_forward")
        made = new(tape, (*batch.labels.shape, "V"), step.recipe.precision.compute, "linear")
        del passing
        teacher = clone(made)
        del made
    student = _forward(step, batch, outputs, objective)
    step.tape.enter("loss", "objective")
    with tape.at("loss"):
        loss = add(cross_entropy(to(student, "fp32"), batch.labels), _masked_divergence(student, teacher))
    return loss, (student, teacher)


def _masked_divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """`KDLoss.forward` where no token is masked; its local variables live until it returns."""
    tape, shape = student.tape, student.shape
    own = to(_chosen(student), "fp32")
    with tape.no_grad():
        theirs = to(_chosen(teacher), "fp32")
        taught = log_softmax(theirs)
    logarithms = log_softmax(own)
    with tape.no_grad():
        probabilities = exp(taught)
    ratio = sub(taught, logarithms)
    kept, zeros = like(ratio, "masked_fill", "bool"), like(ratio, "masked_fill")
    finite = like(ratio, "masked_fill")
    attach([finite], [ratio], save(tape, kept), lambda g, s: [like(only(g), "masked_fill")])
    del ratio, zeros, kept
    product = mul(probabilities, finite)
    rows = new(tape, shape[:-1], "fp32", "sum")
    attach([rows], [product], [], lambda g, s: [new(tape, shape, "fp32", "mul_backward")])
    return summed(rows)


def _chosen(logits: Tensor) -> Tensor:
    """`logits[mask]` of every token, whose gradient is written into zeros."""
    found = like(logits, "gather")
    if tracked(logits):
        attach([found], [logits], [], lambda g, s: [like(only(g), "gather_backward")])
    return found


_TAUGHT: Mapping[str, Callable[[Step, Batch, Outputs, Objective], tuple[Tensor, object]]] = {
    "jensen": _generalized,
    "jensen-in-chunks": _in_chunks,
    "forward-kl": _forward_kl,
}
"""Losses of all logits at once next to a teacher's, by the name that a method gives them."""


_VALUE_DROPOUT = 0.1
"""Of a value head where the config has no `summary_dropout_prob` (trl 0.9.6, models/modeling_value_head.py)."""


def valued(hidden_states: Tensor) -> Tensor:
    """`v_head(hidden_states)`: dropout, and one row of weights in fp32."""
    x = to(dropout(hidden_states, _VALUE_DROPOUT), "fp32")
    found = new(x.tape, (*x.shape[:-1], 1), "fp32", "linear")
    attach([found], [x], save(x.tape, x), lambda g, s: [like(s[0], "input_gradient")])
    return found


def _forward(step: Step, batch: Batch, outputs: Outputs, objective: Objective) -> Tensor:
    """Return the logits as the trainer sees them; GRPO's model is asked for one more, which is dropped."""
    tape = step.tape
    with tape.autocasting(step.recipe.precision.autocast):
        logits = outputs(step, batch, Shifted(_COMPLETION, 1, 1) if objective.completes else None)
    return to(logits, "fp32") if objective.upcasts else logits


def _referred(step: Step, batch: Batch, outputs: Outputs, objective: Objective) -> list[Tensor]:
    """Return the reference's logits, which the loss function holds until it returns."""
    tape = step.tape
    found = []
    before, tape.evaluating = tape.evaluating, True
    with tape.no_grad():
        for _ in range(2 if objective.divergence else 1):
            tape.enter("forward", "inputs")
            if objective.reference == "adapter":
                tape.adapting = False
                found.append(_forward(step, batch, outputs, objective))
                tape.adapting = True
            else:
                copy = _copy(step)
                found.append(_forward(copy, batch, outputs, objective))
                copy.runtime.evaluated()
        for logits in () if objective.fused else found:
            with tape.at("loss"):
                _scored(logits, objective)
    tape.evaluating = before
    return found


def _copy(step: Step) -> Step:
    """Return the frozen copy, whose units an engine gathers as it gathers the model's."""
    if step.reference is None:
        fused = step.recipe.objective if step.recipe.objective and step.recipe.objective.fused else None
        recipe = replace(step.recipe, checkpoints=None, objective=fused)
        step.reference = Step(recipe, type(step.runtime), step.tape)
    return step.reference


def _scored(logits: Tensor, objective: Objective) -> Tensor:
    """Return the log-probabilities of the tokens that are there."""
    if objective.tiled:
        return logits
    if objective.flash:
        return _by_kernel(logits, objective)
    length = logits.shape[1]
    kept = _COMPLETION if objective.completes else Shifted(length, -1, 1)
    part = logits if length == kept else narrow(logits, 1, kept)
    if objective.whole:
        return _from_all(part)
    return _from_sums(part) if part.dtype == "fp32" else _row_by_row(part)


def _by_kernel(logits: Tensor, objective: Objective) -> Tensor:
    """`cross_entropy_loss(logits, labels)`, which keeps the logits, and makes their gradients in their place if asked.

    Source: flash_attn 2.8, ops/triton/cross_entropy.py (`inplace_backward`); verl 0.8, utils/torch_functional.py
    (`logprobs_from_logits_flash_attn`); OpenRLHF 0.11, models/utils.py (`log_probs_from_logits`).
    """
    tape, shape, dtype = logits.tape, logits.shape, logits.dtype
    found, sums = new(tape, shape[:-1], "fp32", "gather"), new(tape, shape[:-1], "fp32", "logsumexp")

    def gradients(given: list[Tensor | None], saved: list[Tensor]) -> list[Tensor | None]:
        return [saved[0] if objective.in_place else new(tape, shape, dtype, "log_softmax_backward")]

    if tracked(logits):
        attach([found], [logits], save(tape, logits, sums), gradients)
    return found


def _entropies(logits: Tensor) -> Tensor:
    """The entropy of each token, [b, s] in fp32, from one compiled kernel that keeps the logits and two numbers a row.

    Source: verl 0.8, utils/torch_functional.py (`entropy_from_logits`), workers/actor/dp_actor.py (`torch.compile`);
    OpenRLHF 0.11, models/utils.py (`compute_entropy`).
    """
    tape, shape, dtype = logits.tape, logits.shape, logits.dtype
    found, sums, largest = (new(tape, shape[:-1], "fp32", rule) for rule in ("sum", "logsumexp", "amax"))
    if tracked(logits):
        kept = save(tape, logits, sums, largest)
        attach([found], [logits], kept, lambda g, s: [new(tape, shape, dtype, "log_softmax_backward")])
    return found


def _from_all(part: Tensor) -> Tensor:
    """`torch.gather(logits.log_softmax(-1), 2, labels)`, whose kernel copies what a slice is."""
    with part.tape.no_grad():
        copied = contiguous(part)
    everything = like(copied, "log_softmax")
    del copied
    if tracked(part):
        attach([everything], [part], save(part.tape, everything), lambda g, s: [like(only(g), "log_softmax_backward")])
    return _gathered(everything)


def _gathered(x: Tensor) -> Tensor:
    """Return one element of each row; saves x for its shape, and the gradient has all elements.

    Source: pytorch, derivatives.yaml (`gather`), FunctionsManual.cpp (`gather_backward`: for subclasses the zeros that
    it starts from are not written into).
    """
    tape, full = x.tape, x.shape
    found = new(tape, full[:-1], x.dtype, "gather")

    def gradients(given: list[Tensor | None], saved: list[Tensor]) -> list[Tensor | None]:
        zeros = new(tape, full, only(given).dtype, "gather_backward")
        return [like(zeros, "gather_backward") if tape.fake else zeros]

    if tracked(x):
        attach([found], [x], save(tape, x), gradients)
    return found


def _rows(x: Tensor) -> Tensor:
    """Return the sequences of a batch one by one (`for row in logits`), whose gradients are stacked."""
    rows = view(x, x.shape, x.order)
    if tracked(x):
        attach([rows], [x], [], lambda g, s: [new(x.tape, x.shape, only(g).dtype, "stack")])
    return rows


def _from_sums(part: Tensor) -> Tensor:
    """`selective_log_softmax` of fp32: a logit less the sequence's sums of exponentials."""
    found = _gathered(part)
    rows, tape, one = _rows(part), part.tape, part.shape[1:]
    new(tape, one, "fp32", "exp")
    sums = new(tape, part.shape[:-1], "fp32", "sum")
    if tracked(rows):
        shape = part.shape
        attach([sums], [rows], save(tape, rows, sums), lambda g, s: [_through_exponentials(rows.tape, shape, one)])
    return add(found, sums)


def _through_exponentials(tape: Tape, shape: Shape, one: Shape) -> Tensor:
    """Gradients of all sequences, with the difference and the exponential of the one that is computed last."""
    found = new(tape, shape, "fp32", "mul_backward")
    temporaries = [new(tape, one, "fp32", "exp") for _ in range(2)]
    del temporaries
    return found


def _row_by_row(part: Tensor) -> Tensor:
    """`selective_log_softmax` of 16 bits: the log-probabilities of each sequence, of which one is gathered."""
    rows, tape, shape, one = _rows(part), part.tape, part.shape, part.shape[1:]
    found = new(tape, part.shape[:-1], part.dtype, "gather")
    if not tracked(rows):  # a sequence's are there until those of the next are
        several = [new(tape, one, part.dtype, "log_softmax") for _ in range(2)]
        del several
    else:
        everything = new(tape, shape, part.dtype, "log_softmax")

        def gradients(given: list[Tensor | None], saved: list[Tensor]) -> list[Tensor | None]:
            dtype = saved[0].dtype
            row = new(tape, one, dtype, "gather_backward")
            result = new(tape, shape, dtype, "log_softmax_backward")
            del row
            return [result]

        attach([found], [rows], save(tape, everything), gradients)
    return found


def summed(scores: Tensor) -> Tensor:
    """Return a number of all sequences."""
    loss, shape, dtype = new(scores.tape, (), scores.dtype, "sum"), scores.shape, scores.dtype
    if tracked(scores):
        attach([loss], [scores], [], lambda g, s: [new(scores.tape, shape, dtype, "mul_backward")])
    return loss


def _supervised(logits: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy of the chosen sequences, which are the first half."""
    half: Axis = Quotient((logits.shape[0],), 2)
    chosen = narrow(narrow(logits, 0, half), 1, Shifted(logits.shape[1], -1, 1))
    return cross_entropy(contiguous(chosen), batch.labels)


def _measure(logits: Tensor, objective: Objective) -> None:
    """Entropies of all tokens, for which `reshape` copies what a slice of several sequences is."""
    with logits.tape.no_grad():
        copied = contiguous(logits if objective.tempered else narrow(logits, 1, Shifted(logits.shape[1], -1, 1)))
        del copied

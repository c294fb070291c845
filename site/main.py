"""Wires the page to memcore: reads the form, the link and dropped files, and puts answers in their places."""

import asyncio

from pyscript import document, when, window

from memcore.config.settings import SETTINGS
from memcore.errors import MemcoreError
from memcore.render import html, page
from memcore.render.form import default_option, identifier, is_shown

LAST_EDIT_WAIT = 0.015
"""Seconds to wait for the next keystroke before an answer is computed."""


class Page:
    """The page's state: whether the current edit has an entry of its own in the history."""

    def __init__(self):
        self.edits = 0
        self.committed = True

    def read(self):
        """The content of the form."""
        texts = {path: element("field", path).value for path in SETTINGS}
        return page.Form(texts, document.getElementById("model-json").value)

    def write(self, form):
        """Fill the form."""
        for path in SETTINGS:
            element("field", path).value = form.texts.get(path, "")
        document.getElementById("model-json").value = form.pasted
        if form.pasted:
            document.getElementById("paste").open = True

    def recompute(self, *, remember):
        """Answer what the form says, and remember it in the URL."""
        answer = page.answer(self.read())
        self.show(answer)
        if remember and answer.fragment and window.location.hash != f"#{answer.fragment}":
            place = window.history.pushState if self.committed else window.history.replaceState
            place(None, "", f"#{answer.fragment}")
            self.committed = False

    def show(self, answer):
        """Put an answer in its places, or say what is wrong and leave the last answer."""
        show_problems(answer.problems)
        document.querySelector("main").classList.toggle("stale", bool(answer.problems))
        if answer.problems:
            return
        opened = [each.id for each in document.querySelectorAll("#ledger details[open]")]
        for name, markup in answer.sections.items():
            document.getElementById(name).innerHTML = markup
        for name in opened:
            found = document.getElementById(name)
            if found:
                found.open = True
        for name, value in answer.attributes.items():
            document.getElementById("verdict").setAttribute(name, value)
        show_fields(answer)

    def follow_link(self):
        """Show what the URL says; a link that cannot be understood changes nothing."""
        fragment = window.location.hash
        self.committed = True
        try:
            self.write(page.fill(page.read_link(fragment) if fragment else page.example()))
        except MemcoreError as error:
            show_problems(page.problems_of(error))
            return
        self.recompute(remember=False)

    async def take_file(self, file):
        """Take a dropped or chosen file; one that is not understood changes nothing."""
        if file.size > page.LARGEST_FILE:
            say(f"{file.name} is too large.")
            return
        try:
            self.write(page.read_file(await file.text(), self.read()))
        except MemcoreError as error:
            show_problems(page.problems_of(error))
            return
        self.committed = True
        self.recompute(remember=True)
        self.committed = True


def element(kind, path):
    """The control of a setting, its hint or its error."""
    return document.getElementById(identifier(path) if kind == "field" else f"{identifier(path)}-{kind}")


def show_problems(problems):
    """Problems beside their fields, and all of them above the answer."""
    for path in SETTINGS:
        element("error", path).textContent = ""
        element("field", path).removeAttribute("aria-invalid")
    pasted = document.getElementById("model-json-error")
    pasted.textContent = ""
    for problem in problems:
        if problem.path in SETTINGS:
            element("error", problem.path).textContent = problem.message
            element("field", problem.path).setAttribute("aria-invalid", "true")
        elif problem.path.startswith("model"):
            pasted.textContent = str(problem)
    region = document.getElementById("problems")
    region.hidden = not problems
    region.innerHTML = html.problems(problems) if problems else ""


def show_fields(answer):
    """Show the settings that apply to the engine or have a value, and what is taken for those that have none."""
    for path in SETTINGS:
        control, default = element("field", path), answer.defaults.get(path, "")
        if control.tagName == "SELECT":
            control.options.item(0).textContent = default_option(default)
        else:
            control.placeholder = default
        control.closest(".field").hidden = not is_shown(path, answer.engine, control.value)
    for group in document.querySelectorAll("#config fieldset"):
        group.hidden = not group.querySelector(".field:not([hidden])")


def say(text):
    """Say something in passing."""
    document.getElementById("notice").textContent = text


state = Page()


@when("input", "#config")
async def edited(event):
    """Answer every edit, but not every keystroke of a fast typist."""
    if event.target.id == "file":
        return
    say("")
    state.edits += 1
    edit = state.edits
    await asyncio.sleep(LAST_EDIT_WAIT)
    if edit == state.edits:
        state.recompute(remember=True)


@when("change", "#config")
async def finished(event):
    """The next edit gets an entry of its own in the history."""
    if event.target.id == "file":
        if event.target.files.length:
            await state.take_file(event.target.files.item(0))
        return
    await asyncio.sleep(2 * LAST_EDIT_WAIT)
    state.committed = True


@when("submit", "#config")
def submitted(event):
    """Enter in a field is an edit like any other."""
    event.preventDefault()


@when("popstate", window)
def went(event):
    """Back and forward undo and redo."""
    state.follow_link()


@when("dragover", document)
def dragged(event):
    """Files can be dropped anywhere."""
    event.preventDefault()


@when("drop", document)
async def dropped(event):
    """Take the first dropped file."""
    event.preventDefault()
    if event.dataTransfer.files.length:
        await state.take_file(event.dataTransfer.files.item(0))


@when("click", "#copy")
async def copied(event):
    """Copy a link that restores everything."""
    fragment = page.answer(state.read()).fragment
    link = f"{window.location.href.split('#')[0]}#{fragment}"
    try:
        await window.navigator.clipboard.writeText(link)
        say("Link copied.")
    except Exception:  # noqa: BLE001 - whatever the browser refuses, the link is in the address bar too
        window.history.replaceState(None, "", link)
        say("The link is in the address bar.")


def start():
    """Take over from the prerendered page: answer its link, or what is in its form by now."""
    if window.location.hash:
        state.follow_link()
    else:
        state.recompute(remember=False)
    document.getElementById("progress").hidden = True
    document.documentElement.dataset.state = "live"


start()

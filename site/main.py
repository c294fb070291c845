"""Runs memcore in a worker: takes messages of the page, and sends what changes back, piece by piece.

Messages are answered side by side, but whoever waits is answered first: between two pieces, what takes long waits for
what does not, and what nobody has asked for waits for everything else.
"""

import asyncio
import json

from polyscript import xworker

from memcore.faces.page.actions import NOBODY_WAITS, handle, turn_of
from memcore.faces.page.session import Session

session = Session()
running = set()
begun = [0] * (NOBODY_WAITS + 1)  # messages that are being answered, by their turn
ended = asyncio.Event()


async def serve(text):
    """Answer a message, and say when that is done; between two pieces others may be answered."""
    message = json.loads(text)
    turn = turn_of(message)
    begun[turn] += 1
    try:
        for patch in handle(session, message):
            if patch:
                xworker.postMessage(json.dumps(patch))
            await asyncio.sleep(0)
            while any(begun[:turn]):
                await ended.wait()
    except Exception as error:
        failure = f"memcore failed: {error!r:.300}. Please report it."
        xworker.postMessage(json.dumps({"say": failure, "live": True}))  # what is typed next may be answered
        raise
    finally:
        begun[turn] -= 1
        ended.set()
        ended.clear()
        xworker.postMessage(json.dumps({"finished": message.get("number")}))


def received(event):
    """A message of the page; those of PyScript itself are not texts."""
    if isinstance(event.data, str):
        task = asyncio.ensure_future(serve(event.data))
        running.add(task)
        task.add_done_callback(running.discard)


xworker.onmessage = received
xworker.postMessage(json.dumps({"ready": True}))

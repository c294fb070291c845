"""Runs memcore in a worker: takes messages of the page, and sends what changes back, piece by piece."""

import asyncio
import json

from polyscript import xworker

from memcore.faces.page.actions import handle
from memcore.faces.page.session import Session

session = Session()
running = set()


async def serve(text):
    """Answer a message, and say when that is done; between two pieces others may be answered."""
    message = json.loads(text)
    try:
        for patch in handle(session, message):
            if patch:
                xworker.postMessage(json.dumps(patch))
            await asyncio.sleep(0)
    except Exception as error:
        failure = f"memcore failed: {error!r:.300}. Please report it."
        xworker.postMessage(json.dumps({"say": failure, "live": True}))  # what is typed next may be answered
        raise
    finally:
        xworker.postMessage(json.dumps({"finished": message.get("number")}))


def received(event):
    """A message of the page; those of PyScript itself are not texts."""
    if isinstance(event.data, str):
        task = asyncio.ensure_future(serve(event.data))
        running.add(task)
        task.add_done_callback(running.discard)


xworker.onmessage = received
xworker.postMessage(json.dumps({"ready": True}))

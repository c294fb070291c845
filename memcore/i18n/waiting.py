"""Texts about an answer that is not there: before Python runs, while it computes, and what went wrong.

A part of `words.WORDS`. The page carries these in every language from the start, because it says them without Python;
its scripts fill in `{file}` and `{seconds}`.
"""

from __future__ import annotations

from collections.abc import Mapping

WORDS_OF_WAITING: Mapping[str, tuple[str, str]] = {
    "wait-loading": (
        "Loading Python (15 MB, once). The answer below is for the example.",
        "正在加载 Python（15 MB，仅一次）。下面是示例的结果。",
    ),
    "wait-loading-link": ("Loading Python (15 MB, once).", "正在加载 Python（15 MB，仅一次）。"),
    "wait-loading-again": ("Starting Python again. Your settings are kept.", "正在重新启动 Python，您的设置不受影响。"),
    "wait-computing": ("Computing the answer for this job…", "正在计算此任务的结果……"),
    "wait-refused": ("No answer for this job.", "此任务没有结果。"),
    "wait-not-started": (
        "No answer for this job: memcore did not start.",
        "此任务没有结果：memcore 未能启动。",
    ),
    "wait-busy": (
        "This answer takes longer than usual: {seconds} s so far.",
        "本次计算比平时久：已用 {seconds} 秒。",
    ),
    "wait-stop": ("Stop", "停止"),
    "wait-stopped": (
        "Stopped after {seconds} s. Change a setting to get an answer, or try again.",
        "已在 {seconds} 秒后停止。请修改设置以获得结果，或重试。",
    ),
    "wait-no-answer-stopped": (
        "No answer for this job: you stopped the computation.",
        "此任务没有结果：您已停止计算。",
    ),
    "wait-retry": ("Try again", "重试"),
    "wait-failed": ("memcore could not start.", "memcore 未能启动。"),
    "wait-missing": ("{file} is missing on the server.", "服务器上缺少 {file}。"),
    "wait-wrong": ("{file} is damaged or belongs to another version.", "{file} 已损坏，或属于其他版本。"),
    "wait-unreachable": ("{file} cannot be loaded. Check your connection.", "无法加载 {file}，请检查网络连接。"),
    "wait-renewed": (
        "{file} was damaged in this browser's cache and has been fetched again.",
        "此浏览器缓存中的 {file} 已损坏，现已重新获取。",
    ),
    "wait-mixed": (
        "The files on the server belong to another version: it is probably being updated.",
        "服务器上的文件属于其他版本：可能正在更新。",
    ),
    "wait-silent": (
        "memcore is still starting, but nothing has arrived for {seconds} s. Check your connection, or try again.",
        "memcore 仍在启动，但已有 {seconds} 秒没有进展。请检查网络连接，或重试。",
    ),
    "wait-what-to-do": (
        "Try again reloads the files and keeps what you typed. If it fails again, wait a few minutes.",
        "点击“重试”会重新加载文件，并保留您输入的内容。如果仍然失败，请几分钟后再试。",
    ),
}

"""Plays the program that runs an agent: it lives as long as the conversation, starts a new shell for every tool call,
and calls hooks as harnesses do. It is told what to do by JSON lines on stdin, and answers each with one line.

    {"do": "hook", "command": "onus hook claude", "payload": "…" (in hex), "env": {…}, "cwd": "…", "under": […]}
    {"do": "shell", "command": "onus ready", "env": {…}, "cwd": "…", "under": […], "pty": false}
    {"do": "nest", "name": "inner", "env": {…}, "cwd": "…"}     another harness, started from one of this one's shells
    {"do": "relay", "to": "inner", "request": {…}}              tells that one what to do
    {"do": "mcp", "name": "one", "command": "onus mcp", "lines": […], "env": {…}, "cwd": "…"}
                                                                lines to a server that is started if it does not run yet;
                                                                each that has an id is answered
    {"do": "leave"}                                             this process ends

`env` is added to what this process was started with, for that one call: nothing is kept from one call to the next.
`under` is a program in front of the shell, such as a sandbox. Only the standard library, and only for tests.
"""

import json
import os
import pty
import subprocess
import sys

nested = {}
servers = {}


def environment(request):
    return {**os.environ, **request.get("env", {})}


def hook(request):
    argv = request.get("under", []) + ["sh", "-c", request["command"]]
    ran = subprocess.run(
        argv,
        # A hook that does not read all of it is not the harness's concern.
        input=bytes.fromhex(request["payload"]),
        capture_output=True,
        cwd=request["cwd"],
        env=environment(request),
    )
    return answer(ran.returncode, ran.stdout, ran.stderr)


def shell(request):
    argv = request.get("under", []) + ["bash", "-c", request["command"]]
    if request.get("pty"):
        return on_terminal(argv, request)
    ran = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, cwd=request["cwd"], env=environment(request)
    )
    return answer(ran.returncode, ran.stdout, ran.stderr)


def on_terminal(argv, request):
    """The same in a pseudo-terminal, where stdout and stderr are one."""
    outside, inside = pty.openpty()
    child = subprocess.Popen(
        argv,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        cwd=request["cwd"],
        env=environment(request),
        start_new_session=True,
    )
    os.close(inside)
    shown = b""
    while True:
        try:
            part = os.read(outside, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(outside)
    return answer(child.wait(), shown.replace(b"\r\n", b"\n"), b"")


def answer(code, out, err):
    return {"code": code, "stdout": out.decode("utf-8", "replace"), "stderr": err.decode("utf-8", "replace")}


def nest(request):
    # The shell stays between the two, as it does when a person or an agent types the command.
    command = '"$0" "$1"; exit $?'
    nested[request["name"]] = subprocess.Popen(
        ["bash", "-c", command, sys.executable, os.path.abspath(__file__)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=request["cwd"],
        env=environment(request),
        text=True,
    )
    return {}


def relay(request):
    inner = nested[request["to"]]
    inner.stdin.write(json.dumps(request["request"]) + "\n")
    inner.stdin.flush()
    said = json.loads(inner.stdout.readline())
    if request["request"]["do"] == "leave":
        # It is gone when this is answered.
        inner.wait()
    return said


def mcp(request):
    name = request["name"]
    if name not in servers:
        servers[name] = subprocess.Popen(
            request["command"].split(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=request["cwd"],
            env=environment(request),
            text=True,
        )
    server, answers = servers[name], []
    for line in request["lines"]:
        server.stdin.write(json.dumps(line) + "\n")
        server.stdin.flush()
        if "id" in line:
            answers.append(json.loads(server.stdout.readline()))
    return {"answers": answers}


def main():
    actions = {"hook": hook, "shell": shell, "mcp": mcp, "nest": nest, "relay": relay}
    # Not `for line in sys.stdin`, which reads ahead.
    while line := sys.stdin.readline():
        request = json.loads(line)
        if request["do"] == "leave":
            print("{}", flush=True)
            break
        print(json.dumps(actions[request["do"]](request)), flush=True)
    for inner in [*nested.values(), *servers.values()]:
        inner.stdin.close()
        inner.wait()


if __name__ == "__main__":
    main()

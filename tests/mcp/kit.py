"""What the cases stand on: the official client, connected to the real binary in the sandbox that the test made."""

import contextlib
import json
import os
import subprocess
import sys

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import Implementation

ONUS = os.environ["ONUS"]
FOLDER = os.getcwd()

# Both ways the protocol begins: with a handshake, and with every request saying who sends it.
ERAS = ("legacy", "auto")


def connect(name="tester", env=None, command=None, args=("mcp",), cwd=FOLDER, era="auto"):
    server = StdioServerParameters(
        command=command or ONUS, args=list(args), cwd=cwd, env={"HOME": FOLDER, "TZ": "UTC"} | (env or {})
    )
    return Client(server, client_info=Implementation(name=name, version="1"), mode=era)


async def call(client, tool, **arguments):
    """The structured answer of a call that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    assert len(result.content) == 1 and result.content[0].text, result
    return result.structured_content


async def refused(client, code, tool, **arguments):
    """The refusal of a call that must be refused with this code."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    error = result.structured_content["error"]
    assert error["code"] == code, error
    text = result.content[0].text
    assert error["message"] in text and all(step in text for step in error["next"]), (error, text)
    return error


def environment(actor=None, instance=None, **more):
    said = {"ONUS_ACTOR": actor, "ONUS_INSTANCE": instance} | more
    plain = {"PATH": os.environ["PATH"], "HOME": FOLDER, "TZ": "UTC"}
    return plain | {name: value for name, value in said.items() if value}


def run(*args, actor="human:founder", instance=None, cwd=FOLDER, **more):
    """The command line's exit code and document."""
    ran = subprocess.run(
        [ONUS, *args, "--json"],
        cwd=cwd,
        env=environment(actor, instance, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return ran.returncode, json.loads(ran.stdout)


def onus(*args, **who):
    """The document of a command that must succeed."""
    code, document = run(*args, **who)
    assert code == 0, (args, document)
    return document


def add(title, *args):
    return onus("add", title, *args)["id"]


async def eventually(what, look):
    """Looks again until something is there."""
    with anyio.fail_after(60):
        while not (found := look()):
            await anyio.sleep(0.02)
    return found


@contextlib.contextmanager
def at_once(seconds=10):
    """What is inside waits for nothing."""
    started = anyio.current_time()
    yield
    assert anyio.current_time() - started < seconds, "it took too long"


def servers():
    """The pids of the servers below this process."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = open(f"/proc/{pid}/stat").read()
            name, fields = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
            if name == "onus" and int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.append(int(pid))
    return found


def main(cases):
    """Runs the case that is named on the command line."""
    anyio.run(cases[sys.argv[1]])

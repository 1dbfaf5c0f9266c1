"""onus under real coding agents: each story is one promise, told with the programs' own hooks, shells and MCP clients.

    stories.py --onus ONUS --programs FOLDER [--agents claude,codex,gemini] [--stories collide,clear]

`scripts/harnesses` installs the programs and calls this. A line that begins with NOT is a promise that was not kept.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
import traceback

from model import Model
from programs import ALL, CLAUDE, CODEX, GEMINI, Stage, kill


class Story:
    def __init__(self, stage, agent, name):
        self.stage, self.agent, self.name, self.failed = stage, agent, name, 0

    def expect(self, holds, what):
        print(f"  {'ok ' if holds else 'NOT'} {what}", flush=True)
        self.failed += not holds

    def cue(self, part):
        return f"{self.name}-{self.agent.name}-{part}"

    def repository(self, **options):
        self.folder = self.stage.repository(self.agent, self.name, **options)
        return self.folder

    def begin(self, part, *more):
        child, player = self.stage.run(self.agent, self.folder, self.cue(part), *more)
        return child, player.begin()

    def file(self, name="f.txt"):
        # Patches name files from where the agent works.
        return name if self.agent is CODEX else os.path.join(self.folder, name)

    def edit(self, player, old, new, name="f.txt"):
        if self.agent is CLAUDE:
            player.read(self.file(name))
        return player.edit(self.file(name), old, new)

    def text(self, name="f.txt"):
        with open(os.path.join(self.folder, name)) as file:
            return file.read()

    def holders(self, name="f.txt"):
        """The instances that hold a file live."""
        return [task["lease"]["instance"] for task in self.stage.tasks(self.folder)
                if task.get("lease") and task["lease"]["live"] and name in task["lease"]["scope"]]

    def end(self, child, player):
        player.say()
        self.expect(child.wait(90) == 0, "the program ended well")


def collide(story):
    """Two conversations want one file: the second is refused and told why, and the first hears of it."""
    story.repository()
    first, a = story.begin("a")
    story.expect(a.heard("coordinated by onus"), "the first was given the primer")
    story.edit(a, "two", "two by A")
    second, b = story.begin("b")
    refused = story.edit(b, "three", "three by B")
    story.expect("reserved by ON-1" in refused, f"the second was refused: {refused[:200]!r}")
    told = a.shell("true")
    news = "waits for f.txt"
    story.expect(news in told or a.heard(news), "the first was told that somebody waits")
    story.edit(b, "two", "two by B", "g.txt")
    story.end(second, b)
    story.end(first, a)
    story.expect(story.text() == "one\ntwo by A\nthree\n" and "two by B" in story.text("g.txt"), "each wrote its own file")
    story.expect(all(task["state"] == "done" for task in story.stage.tasks(story.folder)), "with them their work ended")


def loop(story):
    """The whole loop over MCP, and one identity in hooks, shell and server."""
    story.repository()
    story.stage.onus(story.folder, "add", "Alpha")
    child, a = story.begin("a")
    for tool in ("claim", "note", "done") if story.agent is CLAUDE else ():
        a.find(tool)
    claimed = a.mcp("claim", id="ON-1")
    story.expect("yours" in claimed or '"token"' in claimed, f"it was granted: {claimed[:120]!r}")
    story.expect("no hook of" not in claimed, "its hooks have spoken")
    story.expect("holds ON-1" in a.shell("onus whoami"), "its shell is the same instance")
    story.edit(a, "two", "2")
    a.mcp("note", id="ON-1", text="half")
    a.mcp("done", id="ON-1", message="whole")
    story.end(child, a)
    tasks = story.stage.tasks(story.folder)
    story.expect([task["state"] for task in tasks] == ["done"], "one task, done, and nothing adopted beside it")


def killed(story):
    """kill -9: the file is free at once; the conversation, resumed, goes on with its planned task."""
    story.repository()
    story.stage.onus(story.folder, "add", "Alpha")
    child, a = story.begin("a")
    a.shell("onus claim ON-1")
    story.edit(a, "two", "2")
    before = story.holders()
    kill(child)
    # The processes of its group end one after another.
    deadline = time.time() + 10
    while story.holders() and time.time() < deadline:
        time.sleep(0.1)
    story.expect(len(before) == 1 and story.holders() == [], "its lease died with it, long before its time was up")
    conversation = story.agent.conversation(story.stage.said(story.cue("a")))
    child, b = story.begin("b", *story.agent.resume(conversation))
    story.edit(b, "three", "3")
    story.expect(story.holders() == before, f"resumed, the next edit went on: {story.holders()} after {before}")
    b.shell("onus done ON-1 -m ok")
    story.end(child, b)
    story.expect(len(story.stage.tasks(story.folder)) == 1, "no ad-hoc task was opened")


def parts(story):
    """A sub-agent can do about its task what it was told to do; another conversation cannot."""
    story.repository()
    child, a = story.begin("a")
    part = story.stage.model.player(story.cue("part"))
    spawned = threading.Thread(target=a.spawn, args=(story.cue("part"),), daemon=True)
    spawned.start()
    part.begin()
    story.edit(part, "two", "2")
    holders = story.holders()
    story.expect(len(holders) == 1 and "/" in holders[0], f"the sub-agent holds its file: {holders}")
    other, b = story.begin("b")
    story.expect("held by" in b.shell("onus release ON-1"), "another conversation cannot give it back")
    story.end(other, b)
    freed = part.shell("onus release ON-1")
    story.expect(story.holders() == [], f"the sub-agent can: {freed[-200:]!r}")
    part.say()
    spawned.join(60)
    a.say()
    # The program may have more to say about its sub-agent.
    deadline = time.time() + 60
    while child.poll() is None and time.time() < deadline:
        if not a.questions.empty():
            a.begin().say()
        time.sleep(0.2)
    story.expect(child.poll() == 0, "the program ended well")


def untrusted(story):
    """Nobody trusted the hooks: they do not run, and that is said."""
    story.repository(trusted=False)
    child, a = story.begin("a", *(["--skip-trust"] if story.agent is GEMINI else []))
    story.edit(a, "two", "2")
    if story.agent is CODEX:
        told = a.mcp("status")
        story.expect("no hook of codex" in told, f"the server says so: {told[-300:]!r}")
    story.end(child, a)
    checked = story.stage.onus(story.folder, "setup", story.agent.name, "--check", agent=story.agent)
    story.expect("hooks are there but not trusted" in checked, "so does setup --check")


def terminals(story):
    """Two terminals of Codex are one process with one server: a task is granted to one of them."""
    story.repository()
    story.stage.onus(story.folder, "add", "Alpha")
    one = story.stage.terminal(CODEX, story.folder, "one")
    one.wait_for("Ask Codex")
    two = story.stage.terminal(CODEX, story.folder, "two")
    two.wait_for("Ask Codex")
    time.sleep(2)
    a = one.ask(story.stage.model.player(story.cue("a")))
    b = two.ask(story.stage.model.player(story.cue("b")))
    granted, refused = a.mcp("claim", id="ON-1"), b.mcp("claim", id="ON-1")
    story.expect("is yours" in granted and "has been held by" in refused, f"one has it: {refused[:200]!r}")
    story.expect("holds ON-1" in a.shell("onus whoami") and "holds nothing" in b.shell("onus whoami"), "their shells know whose it is")
    a.say()
    b.say()


def clear(story):
    """After /clear the server of the conversation before acts for the one that runs."""
    story.repository()
    story.stage.onus(story.folder, "add", "Alpha")
    terminal = story.stage.terminal(CLAUDE, story.folder, "claude")
    if terminal.wait_for("accept edits on", "New MCP server") == "New MCP server":
        terminal.keys("Up", "Up", "Enter")
        terminal.wait_for("accept edits on")
    a = terminal.ask(story.stage.model.player(story.cue("a")))
    before = a.shell("onus whoami")
    a.say("That was A.")
    terminal.wait_for("That was A.")
    terminal.enter("/clear")
    time.sleep(2)
    b = terminal.ask(story.stage.model.player(story.cue("b")))
    b.find("claim")
    b.mcp("claim", id="ON-1")
    after = b.shell("onus whoami")
    story.expect("holds ON-1" in after, f"its shell holds what its server claimed: {after[:300]!r}")
    story.expect(before.splitlines()[1] != after.splitlines()[1], "it is another instance than before")
    b.say()


STORIES = {
    "collide": (collide, ALL), "loop": (loop, ALL), "killed": (killed, ALL), "parts": (parts, [CLAUDE, CODEX]),
    "untrusted": (untrusted, [CODEX, GEMINI]), "terminals": (terminals, [CODEX]), "clear": (clear, [CLAUDE]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onus", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--agents", default=",".join(agent.name for agent in ALL))
    parser.add_argument("--stories", default=",".join(STORIES))
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="onus-harnesses-") as root:
        model = Model()
        stage = Stage(os.path.realpath(root), os.path.abspath(args.onus), os.path.abspath(args.programs), model)
        try:
            for name in args.stories.split(","):
                play, agents = STORIES[name]
                for agent in agents:
                    if agent.name not in args.agents.split(","):
                        continue
                    print(f"{agent.name}: {play.__doc__.splitlines()[0]}", flush=True)
                    story = Story(stage, agent, name)
                    try:
                        play(story)
                    except Exception:
                        story.expect(False, f"it could be told to the end:\n{traceback.format_exc()}")
                    failed += story.failed
        finally:
            stage.close()
            model.close()
    print(f"{failed} promises were not kept" if failed else "all promises were kept")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

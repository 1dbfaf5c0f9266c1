"""Each case is one promise of `onus mcp`, kept to the official client."""

import atexit
import json
import os
import signal
import subprocess
import sys

import anyio
import mcp.types

from kit import (
    ERAS, FOLDER, ONUS, add, at_once, call, connect, environment, eventually, main, onus, refused, run, servers,
)


async def the_tools_teach_the_loop_and_are_cheap():
    for era in ERAS:
        async with connect(era=era) as client:
            assert client.server_info.name == "onus"
            for word in ("ready", "claim", "touch", "note", "done", "release", "Refused"):
                assert word in client.instructions, word
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {
                "ready", "claim", "touch", "note", "done", "release", "block", "show", "add", "gate_run", "status",
            }
            for tool in tools.values():
                schema = tool.input_schema
                assert schema["type"] == "object" and schema["additionalProperties"] is False, tool
                assert "$ref" not in json.dumps(schema) and tool.description.endswith(".")
                hints = tool.annotations
                assert hints.open_world_hint is False
                if tool.name in ("ready", "show", "status"):
                    assert hints.read_only_hint is True
                else:
                    assert hints.destructive_hint is False and hints.idempotent_hint is not None
            assert tools["claim"].input_schema["properties"]["wait"]["maximum"] == 600
            assert tools["add"].input_schema["properties"]["priority"]["enum"] == ["P0", "P1", "P2", "P3", "P4"]


async def the_whole_list_is_under_1600_tokens():
    """By its bytes on the wire: a token of English or JSON has four as a rule, and no fewer than three on average."""
    server = subprocess.Popen(
        [ONUS, "mcp"], cwd=FOLDER, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def ask(message):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline()) if "id" in message else None

    who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    started = ask({"id": 1, "method": "initialize", "params": who})
    ask({"method": "notifications/initialized"})
    listed = ask({"id": 2, "method": "tools/list"})
    compact = json.dumps(listed["result"], separators=(",", ":"), ensure_ascii=False)
    size = len(compact.encode()) + len(started["result"]["instructions"].encode())
    print(f"tools/list and instructions: {size} bytes")
    assert size <= 4800, size
    server.stdin.close()
    assert server.wait(10) == 0
    assert server.stdout.read() == b""


async def the_loop_from_ready_to_done():
    first, second = add("First", "--priority", "P1"), add("Second")
    for era in ERAS:
        async with connect(era=era) as client:
            assert [task["id"] for task in (await call(client, "ready"))["tasks"]][0] == first
            claimed = await call(client, "claim", scope=["src/*.rs"])
            assert claimed["task"]["id"] == first and claimed["lease"]["live"], claimed
            assert claimed["lease"]["scope"] == ["src/*.rs"]
            touched = await call(client, "touch", paths=["docs/a.md"])
            assert touched["touched"] == ["docs/a.md"]
            assert onus("show", first)["lease"]["scope"] == ["docs/a.md", "src/*.rs"]
            # Nobody named a task since: it is the one that is held.
            assert (await call(client, "note", text="Half of it"))["id"] == first
            shown = await call(client, "show")
            assert shown["notes"][-1]["text"] == "Half of it"
            # What is shown is what the command line shows, without what is empty and what only programs need.
            printed = onus("show", first)
            for name in set(shown) - {"lease", "notes", "last_word"}:
                assert shown[name] == printed[name], name
            for name in shown["lease"].keys() - {"expires_in_s"}:
                assert shown["lease"][name] == printed["lease"][name], name
            assert (await call(client, "status"))["yours"] == [first]
            assert (await call(client, "claim", id=first))["renewed"] is True
            done = await call(client, "done", message="All of it")
            assert done == {"id": first, "title": "First", "state": "done"}, done
            assert onus("show", first)["notes"][-1]["text"] == "All of it"
            onus("reopen", first)
    async with connect() as client:
        await call(client, "claim", id=second)
        assert (await call(client, "done", message="See the branch", submit=True))["state"] == "review"
        await call(client, "claim", id=first)
        assert (await call(client, "release", message="Not mine"))["state"] == "open"
        assert onus("show", first)["lease"] is None
        # Whoever goes on reads first why it came back; and a number is an id.
        assert (await call(client, "claim", task=int(first.split("-")[1])))["task"]["last_word"]["text"] == "Not mine"
        assert (await call(client, "block", message="A decision"))["state"] == "blocked"


GATES = """
[[gate]]
key = "format"
kind = "command"
run = ["true"]

[[gate]]
key = "tests"
kind = "command"
run = ["sh", "-c", "echo looking for the bug; ! grep -q bug code"]

[[gate]]
key = "review"
kind = "review"
types = ["bug"]
"""


async def gates_are_run_where_the_work_is_and_what_comes_next_is_a_tool():
    def git(*args, cwd=FOLDER):
        subprocess.run(["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *args], cwd=cwd, check=True)

    def write(folder, name, text):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)

    def last(task, gate):
        return [entry["last"] for entry in onus("gate", "list", task)["gates"] if entry["key"] == gate][0]

    git("init", "-q", "-b", "main")
    # Whatever else is in the sandbox is no work.
    write(FOLDER, ".git/info/exclude", "*\n!code\n!onus.toml\n")
    write(FOLDER, "onus.toml", GATES)
    write(FOLDER, "code", "bug\n")
    git("add", "code", "onus.toml")
    git("commit", "-qm", "first")
    onus("init", "--prefix", "ON")
    mine, theirs, judged = add("Mend it"), add("Theirs"), add("Judged", "-t", "bug")
    tools = set()

    def are_tools(steps):
        """Each step is a call of a tool that there is, or for a person; no command line is named."""
        assert steps, steps
        for step in steps:
            assert "onus " not in step, step
            name, _, rest = step.partition(" ")
            assert name in tools or step.startswith("ask a person to ") or name == "mend", step
            if name in tools:
                json.loads(rest[: rest.index("}") + 1])

    async with connect() as client:
        tools.update(tool.name for tool in (await client.list_tools()).tools)
        await call(client, "claim", id=mine)
        # Nobody approved what the repository would run: nothing runs, and a person is asked.
        before = len(onus("log", mine)["events"])
        unapproved = await refused(client, "unapproved", "gate_run", id=mine)
        are_tools(unapproved["next"])
        assert len(onus("log", mine)["events"]) == before
        onus("trust", "approve", "format", "tests")
        # What is missing keeps it from being done, and the way there is a tool.
        missing = await refused(client, "gate", "done", id=mine, message="Done")
        are_tools(missing["next"])
        assert any(step.startswith("gate_run") for step in missing["next"]), missing
        # One passes, one fails: how it ended is in the answer.
        ran = await call(client, "gate_run", id=mine)
        assert ran["passed"] is False, ran
        came = {gate["key"]: gate for gate in ran["gates"]}
        assert came["format"]["verdict"] == "passed" and came["format"]["output"] is None, came
        assert came["tests"]["verdict"] == "failed" and came["tests"]["exit"] == 1, came
        assert came["tests"]["output"] == "looking for the bug\n", came
        are_tools(ran["next"])
        assert any(step.startswith("gate_run") for step in ran["next"]), ran
        assert last(mine, "tests")["verdict"] == "failed" and last(mine, "tests")["actor"] == "agent:tester"
        failed = await refused(client, "gate", "done", id=mine, message="Done")
        are_tools(failed["next"])
        # Mended: only what has not passed on these files is run.
        write(FOLDER, "code", "fine\n")
        git("commit", "-qam", "mended")
        ran = await call(client, "gate_run")
        assert ran["passed"] is True and "next" not in ran, ran
        assert {gate["key"] for gate in ran["gates"]} == {"format", "tests"}
        again = await client.call_tool("gate_run", {"id": mine})
        assert again.structured_content["gates"] == [] and "nothing left to run: format, tests have passed" in again.content[0].text, again
        assert (await call(client, "done", id=mine, message="Mended"))["state"] == "done"
        # What a reviewer has to pass is named, and the way to one is a tool.
        await call(client, "claim", id=judged)
        ran = await call(client, "gate_run", id=judged)
        assert ran["passed"] is True and ran["for_judges"] == ["review"], ran
        are_tools(ran["next"])
        assert ran["next"][0].startswith("done "), ran
        assert (await call(client, "done", id=judged, message="See it", submit=True))["state"] == "review"
        # A gate of somebody else's task is run where their work is, and changes nothing about who holds it.
        onus("claim", theirs, "--worktree", actor="agent:other", instance="o")
        folder = onus("show", theirs)["lease"]["worktree"]
        write(folder, "code", "bug\n")
        ran = await call(client, "gate_run", id=theirs)
        verdicts = {gate["key"]: gate["verdict"] for gate in ran["gates"]}
        assert verdicts == {"format": "passed", "tests": "failed"}, ran
        assert last(theirs, "tests")["actor"] == "agent:tester"
        lease = onus("show", theirs)["lease"]
        assert lease["actor"] == "agent:other" and lease["live"], lease
        # It is theirs to finish.
        held = await refused(client, "held", "done", id=theirs, message="Done for them")
        are_tools(held["next"])


class Weighed:
    """A client whose answers are kept, and of which one half is read."""

    def __init__(self, client):
        self.client, self.sizes = client, []

    async def answer(self, tool, arguments):
        result = await self.client.call_tool(tool, arguments)
        text, document = result.content[0].text, result.structured_content
        self.sizes.append((len(text.encode()), len(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())))
        return text, document

    def medians(self):
        return [sorted(sizes)[len(sizes) // 2] for sizes in zip(*self.sizes)]


def a_day_of_work():
    """Tasks as they are: bodies, notes, one that was sent back, one that waits for another, one that is held."""
    body = "The list is built in orders.rs. Cut it into pages of 50.\n\n- keep the order\n- no second query"
    back = add("Paginate the order list", "-d", body, "-p", "1")
    onus("claim", back, actor="agent:other", instance="o")
    onus("submit", back, "-m", "See the branch", actor="agent:other", instance="o")
    onus("reject", back, "-m", "The last page is empty: see orders_test.rs", actor="human:ann")
    onus("handoff", back, "--to", "agent:tester", "--reason", "Please go on")
    waits, held = add("Document the pages"), add("Upgrade the parser")
    onus("dep", "add", waits, back)
    onus("claim", held, "--scope", "src/**", actor="agent:other", instance="o")
    for n in range(6):
        add(f"Look into report number {n} of the nightly run")
    return back, waits, held


async def the_text_alone_is_enough():
    """As clients that hand their model only the text see it."""
    import re

    back, waits, held = a_day_of_work()
    async with connect() as client:
        weighed = Weighed(client)

        async def say(tool, **arguments):
            return (await weighed.answer(tool, arguments))[0]

        ready = await say("ready")
        first = re.match(r"(\S+) P1 task «Paginate the order list»", ready)[1]
        assert first == back
        shown = await say("show", id=first)
        assert "«The list is built in orders.rs. Cut it into pages of 50.\\n\\n- keep the order" in shown, shown
        assert "The last page is empty: see orders_test.rs" in shown and "assigned by human:founder: «Please go on»" in shown
        claimed = await say("claim", id=first)
        assert claimed.startswith(f"{first} is yours (token 2") and "last word: assigned by human:founder" in claimed
        assert "body: «The list" in claimed
        assert f"{first}: yours to change: orders.rs" in await say("touch", paths=["orders.rs"])
        refused = await say("touch", paths=["src/lib.rs"])
        assert held in refused and "agent:other" in refused and "next: " in refused, refused
        assert "noted" in await say("note", text="Pages are cut; the last one is next")
        assert "Pages are cut" in await say("show")
        status = await say("status")
        assert f"and hold {first}" in status and f"held: {held} «Upgrade the parser»: agent:other" in status
        step = re.search(r"next: claim (\{.*?\})", await say("claim", id=held))
        assert json.loads(step[1])["id"] == held
        assert "is done" in await say("done", message="Paginated, tests pass")
        assert waits in await say("ready")
        added = await say("add", title="Found on the way")
        assert onus("show", added.split()[0])["title"] == "Found on the way"
        print("medians:", weighed.medians())
        assert max(weighed.medians()) < 600, weighed.sizes
    assert onus("show", back)["state"] == "done"


async def the_structured_part_alone_is_enough():
    """As clients that hand their model only the document see it."""
    back, waits, held = a_day_of_work()
    async with connect() as client:
        weighed = Weighed(client)

        async def say(tool, **arguments):
            return (await weighed.answer(tool, arguments))[1]

        first = (await say("ready"))["tasks"][0]["id"]
        assert first == back
        shown = await say("show", id=first)
        assert shown["body"].endswith("- no second query") and shown["last_word"]["text"] == "Please go on"
        assert "The last page is empty: see orders_test.rs" in [note["text"] for note in shown["notes"]]
        claimed = await say("claim", id=first)
        assert claimed["lease"]["token"] == 2 and "boot" not in json.dumps(claimed)
        assert claimed["task"]["body"] == shown["body"] and claimed["task"]["last_word"]["text"] == "Please go on"
        assert "lease" not in claimed["task"]
        assert (await say("touch", paths=["orders.rs"]))["touched"] == ["orders.rs"]
        error = (await say("touch", paths=["src/lib.rs"]))["error"]
        assert error["conflict"]["task"] == held and error["holder"]["actor"] == "agent:other" and error["next"]
        await say("note", text="Pages are cut; the last one is next")
        assert (await say("show"))["notes"][-1]["text"].startswith("Pages are cut")
        status = await say("status")
        assert status["yours"] == [first] and held in [task["id"] for task in status["held"]]
        assert (await say("done", message="Paginated, tests pass"))["state"] == "done"
        assert waits in [task["id"] for task in (await say("ready"))["tasks"]]
        added = await say("add", title="Found on the way")
        assert onus("show", added["id"])["title"] == "Found on the way"
        print("medians:", weighed.medians())
        assert max(weighed.medians()) < 600, weighed.sizes
    assert onus("show", back)["state"] == "done"


async def the_newest_revision_is_spoken_with_and_without_initialize():
    task = add("Wanted")

    def talk(*messages):
        server = subprocess.Popen(
            [ONUS, "mcp"], cwd=FOLDER, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        lines = b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)
        server.stdin.write(lines)
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for message in messages if "id" in message]
        server.stdin.close()
        assert server.wait(10) == 0
        return answers

    who = {"name": "x", "version": "1"}
    for asked, spoken in (("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25")):
        hello = {"protocolVersion": asked, "capabilities": {}, "clientInfo": who}
        started, shown = talk(
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "show", "arguments": {"id": task}}},
        )
        assert started["result"]["protocolVersion"] == spoken, started
        assert shown["result"]["structuredContent"]["id"] == task, shown
    # Every request says who sends it: nothing comes before it.
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": who,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    listed, shown = talk(
        {"id": 1, "method": "tools/list", "params": {"_meta": meta}},
        {"id": 2, "method": "tools/call", "params": {"name": "show", "arguments": {"id": task}, "_meta": meta}},
    )
    assert len(listed["result"]["tools"]) == 11, listed
    assert shown["result"]["structuredContent"]["id"] == task, shown


async def an_added_task_is_what_was_said():
    async with connect() as client:
        parent = await call(client, "add", title="Whole", type="epic")
        made = await call(
            client, "add", title="Part", body="How", type="bug", priority="P0", parent=parent["id"],
            deps=[], scope=["src"],
        )
        shown = onus("show", made["id"])
        assert made == {"id": shown["id"], "title": "Part", "state": "open"}, made
        assert (shown["title"], shown["body"], shown["type"], shown["priority"]) == ("Part", "How", "bug", "P0")
        assert shown["parent"] == parent["id"] and shown["scope"] == ["src"]
        assert shown["created_by"] == "agent:tester"


async def an_ask_with_an_origin_is_one_task_by_whatever_door_it_comes():
    async with connect() as client:
        first = await call(client, "add", title="Login fails", origin="github:Acme/Web#12", link="https://github.com/acme/web/issues/12")
        assert first["state"] == "proposed" and "existing" not in first, first
        again = await call(client, "add", title="Another title", origin="github:acme/web#12")
        assert (again["id"], again["existing"], again["title"]) == (first["id"], True, "Login fails"), again
        whole = onus("show", first["id"])
        assert whole["origin"] == "github:acme/web#12" and whole["link"].endswith("/issues/12"), whole
        assert whole["version"] == 1, whole
        issue = {"html_url": "https://github.com:443/ACME/web/issues/12", "number": 12, "title": "t"}
        delivered = subprocess.run(
            [ONUS, "intake", "github", "--json"], input=json.dumps(issue), text=True, capture_output=True, check=True,
            env=environment("human:ann"), cwd=FOLDER,
        )
        assert json.loads(delivered.stdout)["id"] == first["id"], delivered
        for arguments in (
            {"origin": "nonsense"},
            {"origin": "pigeon:1"},
            {"origin": "github:"},
            {"origin": "github:a/b#1", "link": "javascript:alert(1)"},
            {"link": "https://example.org"},
            {"origin": "cli:1", "body": "x" * 300_000},
        ):
            await refused(client, "usage", "add", title="t", **arguments)
        assert len(onus("list", "--all")["tasks"]) == 1
        with open("onus.toml", "w") as file:
            file.write("[intake.desk]\nreference = 'id'\ntitle = 'title'\ntrust = true\n")
        trusted = await call(client, "add", title="Printer", origin="desk:4711", priority="P1", type="bug")
        assert trusted["state"] == "open", trusted
        shown = onus("show", trusted["id"])
        assert (shown["priority"], shown["type"]) == ("P1", "bug"), shown


async def files_have_the_names_that_they_have_on_the_command_line():
    os.makedirs("src/deep", exist_ok=True)
    os.makedirs("app/[id]", exist_ok=True)
    open("app/[id]/page.tsx", "w").close()
    os.symlink("src", "lnk")
    held = add("Held")
    onus("claim", held, "--scope", "src/**", actor="agent:other", instance="o")
    async with connect() as client:
        mine = (await call(client, "add", title="Mine", scope=["app/[id]/page.tsx"]))
        assert onus("show", mine["id"])["scope"] == ["app/\\[id]/page.tsx"]
        assert "exists here" in mine["notices"][0]["message"]
        await call(client, "claim", id=mine["id"])
        for path in ("lnk/f", "lnk/deep/../g", "lnk/gone/../h"):
            error = await refused(client, "scope", "touch", paths=[path])
            assert error["conflict"]["theirs"] == "src/**", error
        error = await refused(client, "scope", "claim", id=add("Another"), scope=["lnk/*.rs"])
        assert error["conflict"]["yours"] == "src/*.rs", error


async def every_refusal_is_the_command_lines():
    held, unmet = add("Held"), add("Unmet")
    onus("dep", "add", unmet, held)
    onus("claim", held, actor="agent:other", instance="o")
    async with connect() as client:
        error = await refused(client, "held", "claim", id=held)
        assert error["task"] == held and error["holder"]["actor"] == "agent:other"
        assert error["holder"]["live"] and error["expires_in_s"] > 0 and error["next"]
        code, document = run("claim", held, actor="agent:tester", instance="x")
        assert code == 4
        assert document["error"].keys() == error.keys()
        for name in ("code", "task"):
            assert document["error"][name] == error[name], name
        # Only the next steps are its own: calls of tools that it has.
        listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        for step in error["next"]:
            tool, rest = step.split(" ", 1)
            arguments, _ = json.JSONDecoder().raw_decode(rest)
            assert set(arguments) <= set(listed[tool]["properties"]), step
            assert set(arguments) >= set(listed[tool].get("required", [])), step
        await refused(client, "held", "done", id=held, message="x")
        await refused(client, "unmet", "claim", id=unmet)
        await refused(client, "not_found", "claim", id="ON-99")
        await refused(client, "not_found", "show", id="ON-99")
        await refused(client, "nothing", "claim")
        await refused(client, "usage", "note", text="what of?")
        await refused(client, "usage", "claim", wait=601)
        await refused(client, "usage", "claim", force=True)
        await refused(client, "usage", "claim", id="no such thing!")
        await refused(client, "usage", "note")
        await refused(client, "usage", "touch", paths=["../outside"])
        # Somebody else's files.
        onus("scope", "add", "src/**", "--task", held, actor="agent:other", instance="o")
        await call(client, "add", title="Mine")
        await call(client, "claim")
        error = await refused(client, "scope", "touch", paths=["src/main.rs"])
        assert error["conflict"]["task"] == held
        # A person took it away.
        mine = (await call(client, "status"))["yours"][0]
        onus("takeover", mine, "--reason", "mine now", "--force")
        await refused(client, "fenced", "done", id=mine, message="x")
        assert any(notice["kind"] == "superseded" for notice in (await call(client, "status"))["notices"])
        try:
            await client.call_tool("takeover", {})
            raise AssertionError("there is no such tool")
        except mcp.MCPError as error:
            assert "takeover" in str(error)


async def of_two_clients_one_wins():
    task = add("Wanted")
    won = []

    async def try_it(client):
        result = await client.call_tool("claim", {"id": task})
        if not result.is_error:
            won.append(result.structured_content["lease"]["instance"])

    # Two connections of one program are two instances.
    async with connect() as one, connect() as other:
        async with anyio.create_task_group() as group:
            group.start_soon(try_it, one)
            group.start_soon(try_it, other)
        assert len(won) == 1, won
        assert onus("show", task)["lease"]["instance"] == won[0]


async def notices_ride_along():
    task = add("Noted")
    async with connect() as client:
        await call(client, "claim", id=task)
        onus("note", task, "How far are you?")
        result = await client.call_tool("status", {})
        assert [notice["kind"] for notice in result.structured_content["notices"]] == ["note"]
        assert "notice:" in result.content[0].text


async def a_waiting_claim_is_woken_by_a_release():
    task = add("Wanted")
    onus("claim", task, actor="agent:other", instance="o")
    async with connect() as client:
        got = {}

        async def wait():
            got["lease"] = (await call(client, "claim", id=task, wait=60))["lease"]

        with at_once(30):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await anyio.sleep(0.5)
                assert not got
                # Others are answered meanwhile.
                assert (await call(client, "status"))["yours"] == []
                onus("release", task, actor="agent:other", instance="o")
        assert got["lease"]["actor"] == "agent:tester"
        with at_once():
            error = await refused(client, "nothing", "claim", wait=1)
        assert error["next"] is not None


async def a_cancelled_wait_takes_nothing():
    task = add("Wanted")
    for era in ERAS:
        onus("claim", task, actor="agent:other", instance="o")
        async with connect(era=era) as client:
            with anyio.move_on_after(0.7) as scope:
                await call(client, "claim", id=task, wait=60)
            assert scope.cancelled_caught
            # The connection goes on.
            await call(client, "status")
            onus("release", task, actor="agent:other", instance="o")
            await anyio.sleep(0.7)
            assert onus("show", task)["lease"] is None, "nobody waits for it any more"
            claimed = onus("claim", task, actor="agent:third", instance="t")
            assert claimed["takeover"] is False
            onus("release", task, actor="agent:third", instance="t")
    kinds = [event["kind"] for event in onus("log", task, "-n", "100")["events"]]
    assert kinds.count("lease.acquired") == 4, "the cancelled claims left no trace"


async def a_claim_that_was_granted_when_it_was_cancelled_is_given_back():
    """The cancellation is sent right behind the request: whichever is faster, nothing is held in the end."""
    task = add("Wanted")
    server = subprocess.Popen(
        [ONUS, "mcp"], cwd=FOLDER, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def say(*messages):
        lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
        server.stdin.write(b"".join(lines))
        server.stdin.flush()

    def hear():
        return json.loads(server.stdout.readline())

    who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    say({"id": 1, "method": "initialize", "params": who})
    hear()
    say({"method": "notifications/initialized"})
    claim = {"name": "claim", "arguments": {"id": task}}
    # Seen while it runs, or before.
    for number in range(10, 20):
        cancel = {"method": "notifications/cancelled", "params": {"requestId": number}}
        say({"id": number, "method": "tools/call", "params": claim}, cancel)
    status = {"name": "status", "arguments": {}}
    say({"id": 99, "method": "tools/call", "params": status})
    while hear()["id"] != 99:
        pass
    await eventually("nobody holds it", lambda: onus("show", task)["lease"] is None)
    # Seen after it was answered: who cancels does not read the answer.
    say({"id": 100, "method": "tools/call", "params": claim})
    answer = hear()
    assert answer["id"] == 100 and answer["result"]["structuredContent"]["lease"]["live"]
    say({"method": "notifications/cancelled", "params": {"requestId": 100}})
    await eventually("it is given back", lambda: onus("show", task)["lease"] is None)
    # What was held before stays: the cancelled claim only renewed it.
    say({"id": 101, "method": "tools/call", "params": claim})
    hear()
    say({"id": 102, "method": "tools/call", "params": claim})
    assert hear()["result"]["structuredContent"]["renewed"] is True
    say({"method": "notifications/cancelled", "params": {"requestId": 102}})
    say({"id": 103, "method": "tools/call", "params": status})
    assert hear()["result"]["structuredContent"]["yours"] == [task]
    server.stdin.close()
    assert server.wait(10) == 0


async def client_to_be_killed():
    """Not a case: holds a task, says so, and stays."""
    async with connect(env={"ONUS_ACTOR": "agent:doomed", "ONUS_INSTANCE": "doomed-1"}) as client:
        claimed = await call(client, "claim")
        print(json.dumps({"pid": os.getpid(), "servers": servers(), "lease": claimed["lease"]}), flush=True)
        if len(sys.argv) > 2:
            await call(client, "claim", wait=600)
        await anyio.sleep_forever()


def doomed(*args):
    client = subprocess.Popen(
        [sys.executable, "-B", __file__, "client_to_be_killed", *args], stdout=subprocess.PIPE, env=os.environ
    )
    # Also if the case fails before it gets there: whoever runs it waits for all that hold its output.
    atexit.register(client.kill)
    return client, json.loads(client.stdout.readline())


def is_running(pid):
    try:
        stat = open(f"/proc/{pid}/stat").read()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


async def a_killed_client_holds_nothing_any_more():
    task = add("Wanted")
    client, told = doomed()
    assert onus("show", task)["lease"]["process"]["pid"] == client.pid, "bound to the client"
    code, document = run("claim", task, actor="agent:other", instance="o")
    assert code == 4, document
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    taken = onus("claim", task, actor="agent:other", instance="o")
    assert taken["takeover"] is True and taken["lease"]["actor"] == "agent:other"
    await eventually("its server has ended", lambda: not any(map(is_running, told["servers"])))


async def a_client_below_a_shell_is_what_claims_are_bound_to():
    task = add("Wanted")
    # Two commands, so that the shell stays.
    async with connect(command="sh", args=["-c", '"$0" mcp; true', ONUS]) as client:
        await call(client, "claim", id=task)
        assert onus("show", task)["lease"]["process"]["pid"] == os.getpid(), "not to the shell"


async def the_server_ends_with_its_client():
    add("Taken")
    client, told = doomed("and waits")
    assert told["servers"] and all(map(is_running, told["servers"]))
    # While a claim of it waits.
    await anyio.sleep(0.5)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    with at_once(4):
        await eventually("its server has ended", lambda: not any(map(is_running, told["servers"])))
    async with connect():
        assert len(servers()) == 1
    assert servers() == []


async def what_only_the_connection_held_is_given_back_with_it():
    one, other = add("One"), add("Other")
    async with connect() as client:
        lease = (await call(client, "claim", id=one))["lease"]
        assert lease["instance"].startswith("mcp-"), lease
    assert onus("show", one)["lease"] is None
    assert onus("show", one)["state"] == "open"
    # An instance that others can act as keeps what it holds.
    async with connect(env={"ONUS_INSTANCE": "conv-1"}) as client:
        await call(client, "claim", id=other)
    assert onus("show", other)["lease"]["instance"] == "conv-1"


async def who_calls_is_found_out_in_every_call():
    task = add("Wanted")
    me = str(os.getpid())
    async with connect(name="claude-code") as client:
        status = await client.call_tool("status", {})
        assert "agent:claude" in status.content[0].text
        # A hook registers the conversation after the server began.
        onus("instance", "register", "--pid", me, "--instance", "conv-1", actor="agent:claude", instance="conv-1")
        lease = (await call(client, "claim", id=task))["lease"]
        assert (lease["actor"], lease["instance"]) == ("agent:claude", "conv-1")
        assert onus("show", task, actor=None)["lease"]["process"]["pid"] == os.getpid()
        # The command line below the same process is the same instance.
        assert onus("status", actor=None)["yours"] == [task]
        assert onus("note", "from the shell", actor=None)["id"] == task
        assert (await call(client, "show"))["notes"][-1]["text"] == "from the shell"
        # Another conversation in the same program.
        onus("instance", "register", "--pid", me, "--instance", "conv-2", actor="agent:claude", instance="conv-2")
        assert (await call(client, "status"))["yours"] == []
        error = await refused(client, "held", "claim", id=task)
        assert error["holder"]["instance"] == "conv-1"


async def names_are_found_where_they_are_said():
    async def is_called(actor, **how):
        async with connect(**how) as client:
            text = (await client.call_tool("status", {})).content[0].text
            assert text.startswith(f"you are {actor} and"), text

    for era in ERAS:
        await is_called("agent:codex", name="codex-mcp-client", era=era)
        await is_called("agent:my-own-bot", name="My Own Bot", era=era)
    await is_called("agent:said", env={"ONUS_ACTOR": "agent:said"})
    await is_called("agent:flag", env={"ONUS_ACTOR": "agent:said"}, args=["mcp", "--as", "agent:flag"])
    await is_called("agent:gemini", env={"GEMINI_CLI": "1"}, name="codex-mcp-client")
    task = add("Wanted")
    async with connect(env={"CODEX_THREAD_ID": "t-1"}) as client:
        lease = (await call(client, "claim", id=task))["lease"]
        assert (lease["actor"], lease["instance"]) == ("agent:codex", "t-1")
    for how in ({"env": {"ONUS_ACTOR": "human:ann"}}, {"args": ["mcp", "--as", "human:ann"]}):
        async with connect(**how) as client:
            for tool, arguments in (("status", {}), ("claim", {}), ("add", {"title": "x"})):
                await refused(client, "identity", tool, **arguments)


async def a_store_that_cannot_be_written_is_read():
    task = add("Wanted")
    flags = "-m" if os.geteuid() == 0 else "-Urm"
    script = 'mount --bind .onus .onus && mount -o remount,ro,bind .onus && exec "$0" mcp'
    async with connect(command="unshare", args=[flags, "sh", "-c", script, ONUS]) as client:
        assert [ready["id"] for ready in (await call(client, "ready"))["tasks"]] == [task]
        assert (await call(client, "show", id=task))["title"] == "Wanted"
        await call(client, "status")
        for tool, arguments in (
            ("claim", {}), ("claim", {"wait": 60}), ("add", {"title": "x"}), ("note", {"id": task, "text": "x"}),
        ):
            with at_once():
                error = await refused(client, "read_only", tool, **arguments)
                assert error["next"][0] == "ask a person to run this server outside the sandbox", error
    assert onus("show", task)["version"] == 1


async def a_store_may_come_later():
    folder = os.path.join(FOLDER, "elsewhere")
    os.mkdir(folder)
    subprocess.run(["git", "init", "-q", folder], check=True, env=environment())
    async with connect(cwd=folder) as client:
        for tool, arguments in (("ready", {}), ("claim", {}), ("status", {}), ("add", {"title": "x"})):
            error = await refused(client, "no_store", tool, **arguments)
            assert error["next"] == ["ask a person to set up a store here"], error
        onus("init", "--prefix", "EL", cwd=folder)
        assert (await call(client, "add", title="First"))["id"] == "EL-1"
        assert (await call(client, "claim"))["task"]["id"] == "EL-1"


async def nonsense_is_answered_and_too_much_ends_it():
    def start():
        return subprocess.Popen(
            [ONUS, "mcp"], cwd=FOLDER, env=environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )

    server = start()
    who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
    lines = [b"this is not JSON\n", b"\n", b'{"jsonrpc":"2.0","id":7}\n', b"\xff\xfe\n", json.dumps(first).encode() + b"\n"]
    server.stdin.write(b"".join(lines))
    server.stdin.flush()
    answers = [json.loads(server.stdout.readline()) for _ in range(4)]
    by_code = sorted(answer.get("error", {}).get("code", 0) for answer in answers)
    assert by_code == [-32700, -32700, -32600, 0], answers
    assert any(answer.get("id") == 7 for answer in answers)
    # A message that is too long.
    call_ = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"title": "x" * (1 << 20)}}}
    try:
        server.stdin.write(json.dumps(call_).encode() + b"\n")
        server.stdin.flush()
    except BrokenPipeError:
        pass
    assert json.loads(server.stdout.readline())["error"]["code"] == -32600
    assert server.wait(10) == 0
    assert server.stderr.read() == b""
    assert onus("list")["tasks"] == []
    # Nobody there at all.
    server = start()
    assert server.communicate(b"")[0] == b"" and server.returncode == 0


if __name__ == "__main__":
    main(globals())

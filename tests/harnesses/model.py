"""A model that says what a story tells it to, to a real coding agent, on loopback: no network, no key, no model.

A story and an agent's program take turns. The program asks its model what to do next; the question waits here until the story
makes a move, and the move's result is what the program brings along with its next question:

    player = model.player("ada")                  a prompt with `cue:ada` in it belongs to this player
    player.begin()                                the program has asked for the first time
    print(player.shell("onus whoami"))            one tool call, and what came of it
    player.say("Done.")                           the turn is over

Three protocols, as far as the programs use them: Anthropic Messages (Claude Code), OpenAI Responses (Codex), Gemini (Gemini CLI).
"""

import json
import queue
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CUE = re.compile(r"cue:([a-z0-9-]+)")
PATIENCE_S = 120


class Question:
    """What a program asked: the tools' results so far, everything that it told its model, and the tools it offers."""

    def __init__(self, protocol, body):
        self.protocol, self.body = protocol, body
        self.told, self.results = [], []

    @property
    def cue(self):
        # A prompt begins with it; a request for a title only quotes the prompt.
        cues = [found.group(1) for found in map(CUE.match, self.told) if found]
        return cues[-1] if cues else None


class Player:
    """One conversation, or one sub-agent, seen from the story."""

    def __init__(self, name):
        self.name, self.last = name, None
        self.questions, self.moves = queue.Queue(), queue.Queue()

    def begin(self, seconds=PATIENCE_S):
        self.last = self.questions.get(timeout=seconds)
        return self

    def move(self, *what):
        """Plays one tool call; returns its result."""
        if self.last is None:
            self.begin()
        self.moves.put(what)
        self.last = self.questions.get(timeout=PATIENCE_S)
        return self.last.results[-1] if self.last.results else ""

    def shell(self, command):
        return self.move("shell", command)

    def edit(self, file, old, new):
        return self.move("edit", file, old, new)

    def read(self, file):
        return self.move("read", file)

    def mcp(self, tool, **arguments):
        return self.move("mcp", tool, arguments)

    def find(self, tool):
        return self.move("find", tool)

    def spawn(self, cue):
        return self.move("spawn", cue)

    def say(self, text="Done."):
        if self.last is None:
            self.begin()
        self.moves.put(("say", text))
        self.last = None

    def heard(self, words):
        """Whether the program told its model these words, in whatever place."""
        return self.last is not None and any(words in text for text in [*self.last.told, *self.last.results])


class Model:
    def __init__(self):
        self.players, self.lock = {}, threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer("application/json", b'{"data": [], "models": []}')

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                kind, text = model.reply(self.path, json.loads(body or b"{}"))
                try:
                    self.answer(kind, text)
                except OSError:
                    pass  # It was killed while it waited.

            def answer(self, kind, text):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def player(self, name):
        with self.lock:
            return self.players.setdefault(name, Player(name))

    def close(self):
        self.server.shutdown()

    def reply(self, path, body):
        protocol = next((p for p in PROTOCOLS if p.serves(path)), None)
        if protocol is None:
            return "application/json", b'{"input_tokens": 1, "totalTokens": 1}'
        question = protocol.read(body)
        # What a program asks beside the conversation (a title, who speaks next) offers no tools.
        if question.cue is None or not protocol.tools(body):
            return protocol.write(body, ("say", '{"next_speaker": "user", "title": "a story", "reasoning": "none"}'), path)
        player = self.player(question.cue)
        player.questions.put(question)
        return protocol.write(body, player.moves.get(timeout=10 * PATIENCE_S), path)


def texts(content):
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or [] if isinstance(part, dict) and isinstance(part.get("text"), str)]


def events(items, named=True):
    head = (lambda item: f"event: {item['type']}\n") if named else (lambda item: "")
    return "text/event-stream", "".join(f"{head(item)}data: {json.dumps(item)}\n\n" for item in items).encode()


class Anthropic:
    count = 0

    @staticmethod
    def serves(path):
        return path.split("?")[0].endswith("/v1/messages")

    @staticmethod
    def tools(body):
        return [tool["name"] for tool in body.get("tools") or []]

    @staticmethod
    def read(body):
        question = Question("anthropic", body)
        for message in body.get("messages", []):
            content = message["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if message["role"] == "user" and part.get("type") == "tool_result":
                    question.results.append(" ".join(texts(part.get("content"))) or json.dumps(part.get("content")))
                elif message["role"] == "user" and part.get("type") == "text":
                    question.told.append(part["text"])
        return question

    @staticmethod
    def call(move, body):
        kind, *rest = move
        if kind == "shell":
            return "Bash", {"command": rest[0], "description": "run it"}
        if kind == "edit":
            return "Edit", {"file_path": rest[0], "old_string": rest[1], "new_string": rest[2]}
        if kind == "read":
            return "Read", {"file_path": rest[0]}
        if kind == "mcp":
            return f"mcp__onus__{rest[0]}", rest[1]
        if kind == "find":
            return "ToolSearch", {"query": f"select:mcp__onus__{rest[0]}"}
        tool = "Agent" if "Agent" in Anthropic.tools(body) else "Task"
        return tool, {"description": rest[0], "prompt": f"cue:{rest[0]} please", "subagent_type": "general-purpose"}

    @staticmethod
    def write(body, move, path):
        Anthropic.count += 1
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": f"msg_{Anthropic.count}", "type": "message", "role": "assistant", "model": body.get("model"),
                   "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        if move[0] == "say":
            block, stop = {"type": "text", "text": move[1]}, "end_turn"
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": move[1]}
        else:
            name, given = Anthropic.call(move, body)
            block, stop = {"type": "tool_use", "id": f"toolu_{Anthropic.count:020d}", "name": name, "input": given}, "tool_use"
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(given)}
        if not body.get("stream"):
            return "application/json", json.dumps({**message, "content": [block], "stop_reason": stop}).encode()
        return events([
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ])


class Responses:
    """Codex's own models have one tool, `exec`: a script in which the others are functions."""

    count = 0

    @staticmethod
    def serves(path):
        return path.split("?")[0].endswith("/v1/responses")

    @staticmethod
    def offered(body):
        items = [item for item in body.get("input") or [] if isinstance(item, dict)]
        return [*(body.get("tools") or []), *(tool for item in items for tool in item.get("tools") or [])]

    @staticmethod
    def tools(body):
        names = [[tool, *(tool.get("tools") or [])] for tool in Responses.offered(body)]
        return [tool for tools in names for tool in tools if tool.get("name") == "exec"]

    @staticmethod
    def placed(call, body):
        """A tool may be offered inside a namespace, and is then called in it."""
        for tool in Responses.offered(body):
            if any(inner.get("name") == call["name"] for inner in tool.get("tools") or []):
                return {**call, "namespace": tool["name"]}
        return call

    @staticmethod
    def read(body):
        question, answered = Question("responses", body), set()
        for item in body.get("input") or []:
            kind = item.get("type", "message")
            if kind.endswith("_output"):
                # A script may go on with what it says: one call, one result.
                text = item.get("output")
                text = text if isinstance(text, str) else json.dumps(text)
                if item.get("call_id") in answered:
                    question.results[-1] += text
                else:
                    answered.add(item.get("call_id"))
                    question.results.append(text)
            elif kind == "message" and item.get("role") != "assistant":
                question.told.extend(texts(item.get("content")))
            elif kind == "agent_message":
                # A sub-agent's task, somewhere in what its parent sent.
                text = json.dumps(item.get("content"))
                question.told.extend([text, text[text.find("cue:"):]])
        return question

    @staticmethod
    def item(move, body):
        kind, *rest = move
        if kind == "spawn":
            name, given = "spawn_agent", {"task_name": rest[0].replace("-", "_"), "message": f"cue:{rest[0]} please"}
            return Responses.placed({"type": "function_call", "name": name, "arguments": json.dumps(given)}, body)
        if kind == "shell":
            script = f"const r = await tools.exec_command({json.dumps({'cmd': rest[0], 'yield_time_ms': 30000})}); text(r.output ?? r)"
        elif kind == "edit":
            patch = f"*** Begin Patch\n*** Update File: {rest[0]}\n@@\n-{rest[1]}\n+{rest[2]}\n*** End Patch\n"
            script = f"text(await tools.apply_patch({json.dumps(patch)}))"
        elif kind == "mcp":
            script = f"text(await tools.mcp__onus__{rest[0]}({json.dumps(rest[1])}))"
        else:
            script = "text('there is nothing to look up')"
        return Responses.placed({"type": "custom_tool_call", "name": "exec", "input": script}, body)

    @staticmethod
    def write(body, move, path):
        Responses.count += 1
        number = Responses.count
        if move[0] == "say":
            content = [{"type": "output_text", "text": move[1], "annotations": []}]
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
        else:
            item = {**Responses.item(move, body), "id": f"item_{number}", "call_id": f"call_{number}"}
        item["status"] = "completed"
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0},
                 "output_tokens_details": {"reasoning_tokens": 0}}
        whole = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [item], "usage": usage}
        if not body.get("stream"):
            return "application/json", json.dumps(whole).encode()
        return events([
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ])


class Gemini:
    count = 0

    @staticmethod
    def serves(path):
        return "enerateContent" in path

    @staticmethod
    def tools(body):
        return [f["name"] for tool in body.get("tools") or [] for f in tool.get("functionDeclarations") or []]

    @staticmethod
    def read(body):
        question = Question("gemini", body)
        for content in body.get("contents", []):
            for part in content.get("parts", []) if content.get("role") != "model" else []:
                if "functionResponse" in part:
                    question.results.append(json.dumps(part["functionResponse"].get("response"), ensure_ascii=False))
                elif isinstance(part.get("text"), str):
                    question.told.append(part["text"])
        return question

    @staticmethod
    def call(move, body):
        kind, *rest = move
        if kind == "shell":
            return "run_shell_command", {"command": rest[0], "description": "run it"}
        if kind == "edit":
            return "replace", {"file_path": rest[0], "instruction": "change it", "old_string": rest[1], "new_string": rest[2]}
        if kind == "read":
            return "read_file", {"file_path": rest[0]}
        if kind == "mcp":
            return f"mcp_onus_{rest[0]}", rest[1]
        if kind == "find":
            return "list_directory", {"dir_path": "."}
        return "invoke_agent", {"agent_name": "generalist", "prompt": f"cue:{rest[0]} please"}

    @staticmethod
    def write(body, move, path):
        Gemini.count += 1
        if move[0] == "say":
            part = {"text": move[1]}
        else:
            name, given = Gemini.call(move, body)
            part = {"functionCall": {"name": name, "args": given, "id": f"call_{Gemini.count}"}}
        whole = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                 "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
        if "stream" not in path:
            return "application/json", json.dumps(whole).encode()
        return events([whole], named=False)


PROTOCOLS = [Anthropic, Responses, Gemini]

"""How each program is started as a user would: a scratch home, the model on loopback, a repository set up by `onus setup`, and the
trust that a person gives. Nothing is inherited from the environment but where programs are."""

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time


class Stage:
    """A folder for one run: homes, repositories, and everything that was started."""

    def __init__(self, root, onus, programs, model):
        self.root, self.programs, self.model, self.started = root, programs, model, []
        os.makedirs(os.path.join(root, "bin"))
        os.symlink(onus, os.path.join(root, "bin", "onus"))

    def home(self, agent):
        home = os.path.join(self.root, "home", agent.name)
        if not os.path.isdir(home):
            os.makedirs(home)
            # A login shell begins with the system's PATH.
            with open(os.path.join(home, ".profile"), "w") as file:
                file.write(f'PATH="{self.root}/bin:$PATH"\n')
            agent.furnish(self, home)
        return home

    def environment(self, agent):
        node = os.path.dirname(shutil.which("node") or "/usr/bin/node")
        own = os.path.join(self.programs, agent.name, "node_modules", ".bin")
        path = [os.path.join(self.root, "bin"), own, node, "/usr/local/bin", "/usr/bin", "/bin"]
        return {"PATH": ":".join(path), "HOME": self.home(agent), "TMPDIR": "/tmp", "LANG": "C.UTF-8", "TERM": "dumb",
                "SHELL": "/bin/bash", "USER": "tester", "LOGNAME": "tester", "GIT_CONFIG_NOSYSTEM": "1",
                **agent.variables(self)}

    def onus(self, folder, *args, agent=None):
        """What a person gets from a command of onus."""
        env = {"PATH": "/usr/bin:/bin", "HOME": os.path.join(self.root, "home"), "ONUS_ACTOR": "human:tester"}
        if agent:
            env = {**self.environment(agent), "ONUS_ACTOR": "human:tester"}
        ran = subprocess.run([os.path.join(self.root, "bin", "onus"), *args], cwd=folder, env=env, capture_output=True,
                             text=True, timeout=60)
        return ran.stdout + ran.stderr

    def tasks(self, folder):
        return json.loads(self.onus(folder, "list", "--all", "--json"))["tasks"]

    def repository(self, agent, name, trusted=True):
        folder = os.path.join(self.root, "repo", f"{name}-{agent.name}")
        os.makedirs(folder)
        for file in ("f.txt", "g.txt"):
            with open(os.path.join(folder, file), "w") as out:
                out.write("one\ntwo\nthree\n")
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
        env = {"PATH": "/usr/bin:/bin", "HOME": self.root, "GIT_CONFIG_NOSYSTEM": "1"}
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*git, *words], cwd=folder, env=env, check=True)
        self.onus(folder, "init", "--prefix", "ON")
        self.home(agent)
        self.onus(folder, "setup", agent.name, agent=agent)
        if trusted:
            agent.trust(self, folder)
        return folder

    def run(self, agent, folder, cue, *more):
        """Starts a conversation without a terminal."""
        with open(os.path.join(self.root, f"{cue}.out"), "w") as out:
            child = subprocess.Popen(agent.argv(f"cue:{cue} please", *more), cwd=folder, env=self.environment(agent),
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        self.started.append(child)
        return child, self.model.player(cue)

    def said(self, cue):
        with open(os.path.join(self.root, f"{cue}.out")) as file:
            return file.read()

    def terminal(self, agent, folder, name):
        terminal = Terminal(self, agent, folder, name)
        self.started.append(terminal)
        return terminal

    def close(self):
        """What was started here, and nothing else."""
        for one in self.started:
            if isinstance(one, Terminal):
                one.close()
            elif one.poll() is None:
                kill(one)
        # What a program leaves in the background is a copy of itself in its scratch home: nobody else's process is there.
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    if file.read().startswith(os.path.join(self.root, "home")):
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue  # It is gone.


def kill(child):
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()


class Terminal:
    """A program in a terminal of its own, as tmux gives one."""

    def __init__(self, stage, agent, folder, name):
        self.socket, self.name = f"onus-{os.getpid()}", name
        env = {**stage.environment(agent), "TERM": "xterm-256color"}
        words = ["env", "-i", *(f"{key}={value}" for key, value in env.items()), *agent.in_terminal()]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "150", "-y", "50", "-c", folder, *words)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-L", self.socket, *words], capture_output=True, text=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", self.name)

    def wait_for(self, *words, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            screen = self.screen()
            found = next((word for word in words if word in screen), None)
            if found:
                return found
            time.sleep(0.2)
        raise TimeoutError(f"none of {words} came on the screen:\n{self.screen()}")

    def keys(self, *keys):
        for key in keys:
            self.tmux("send-keys", "-t", self.name, key)
            time.sleep(0.4)

    def enter(self, text):
        self.tmux("send-keys", "-t", self.name, "-l", text)
        # A terminal program takes what comes at once for a paste, and the line end with it.
        time.sleep(0.8)
        self.keys("Enter")

    def ask(self, player):
        """Types a prompt, and presses Enter until it is taken: a program that still starts may miss a key."""
        self.enter(f"cue:{player.name} please")
        for _ in range(8):
            try:
                return player.begin(seconds=10)
            except queue.Empty:
                self.keys("Enter")
        raise TimeoutError(f"nothing was asked; on the screen:\n{self.screen()}")

    def close(self):
        self.tmux("kill-session", "-t", self.name)


class Claude:
    name, package, version = "claude", "@anthropic-ai/claude-code", "2.1.325"

    def variables(self, stage):
        return {"ANTHROPIC_BASE_URL": stage.model.url, "ANTHROPIC_API_KEY": "no-key", "DISABLE_AUTOUPDATER": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}

    def furnish(self, stage, home):
        pass

    def trust(self, stage, folder):
        """As after the first start in a terminal; without it, it wants to reach its vendor."""
        project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "enabledMcpjsonServers": ["onus"]}
        with open(os.path.join(stage.home(self), ".claude.json"), "w") as file:
            json.dump({"hasCompletedOnboarding": True, "theme": "dark", "projects": {folder: project},
                       "customApiKeyResponses": {"approved": ["no-key"], "rejected": []}}, file)

    allowed = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash", "Read", "Edit", "mcp__onus", "ToolSearch"]

    def argv(self, prompt, *more):
        return ["claude", "-p", prompt, "--model", "claude-sonnet-4-5", "--output-format", "stream-json", "--verbose",
                *more, *self.allowed]

    def in_terminal(self):
        return ["claude", *self.allowed]

    def conversation(self, said):
        return next(line["session_id"] for line in map(json.loads, filter(None, said.splitlines())) if "session_id" in line)

    def resume(self, conversation):
        return ["--resume", conversation]


class Codex:
    name, package, version = "codex", "@openai/codex", "0.166.0"

    def variables(self, stage):
        return {"NO_KEY": "no-key"}

    def furnish(self, stage, home):
        os.makedirs(os.path.join(home, ".codex"))
        with open(os.path.join(home, ".codex", "config.toml"), "w") as file:
            file.write(f'model_provider = "story"\n\n[model_providers.story]\nname = "story"\nwire_api = "responses"\n'
                       f'env_key = "NO_KEY"\nbase_url = "{stage.model.url}/v1"\n')

    def trust(self, stage, folder):
        with open(os.path.join(stage.home(self), ".codex", "config.toml"), "a") as file:
            file.write(f'\n[projects."{folder}"]\ntrust_level = "trusted"\n')
        server = subprocess.Popen(["codex", "app-server"], cwd=folder, env=stage.environment(self), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        give_up = threading.Timer(60, server.kill)
        give_up.start()

        def ask(number, method, params):
            print(json.dumps({"id": number, "method": method, "params": params}), file=server.stdin, flush=True)
            for line in server.stdout:
                answer = json.loads(line)
                if answer.get("id") == number:
                    return answer["result"]
            raise RuntimeError(f"Codex did not answer {method}")

        try:
            ask(1, "initialize", {"clientInfo": {"name": "story", "title": "story", "version": "1"}})
            print(json.dumps({"method": "initialized"}), file=server.stdin, flush=True)
            hooks = ask(2, "hooks/list", {"cwds": [folder]})["data"][0]["hooks"]
            state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in hooks}
            edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
            ask(3, "config/batchWrite", {"edits": [edit], "reloadUserConfig": True})
        finally:
            give_up.cancel()
            server.kill()
            server.wait()

    def argv(self, prompt, *more):
        if more:
            return ["codex", "exec", "-s", "danger-full-access", "--json", *more, prompt]
        return ["codex", "exec", "-s", "danger-full-access", "--json", prompt]

    def in_terminal(self):
        # With settings of its own it would not use the process that its terminals share.
        return ["codex"]

    def conversation(self, said):
        lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        return next(line["thread_id"] for line in lines if "thread_id" in line)

    def resume(self, conversation):
        return ["resume", conversation]


class Gemini:
    name, package, version = "gemini", "@google/gemini-cli", "0.61.0"

    def variables(self, stage):
        return {"GEMINI_API_KEY": "no-key", "GOOGLE_GEMINI_BASE_URL": stage.model.url, "GEMINI_TELEMETRY_ENABLED": "false"}

    def furnish(self, stage, home):
        os.makedirs(os.path.join(home, ".gemini"))
        with open(os.path.join(home, ".gemini", "settings.json"), "w") as file:
            json.dump({"security": {"auth": {"selectedType": "gemini-api-key"}}}, file)

    def trust(self, stage, folder):
        file = os.path.join(stage.home(self), ".gemini", "trustedFolders.json")
        trusted = {}
        if os.path.exists(file):
            with open(file) as known:
                trusted = json.load(known)
        with open(file, "w") as out:
            json.dump({**trusted, folder: "TRUST_FOLDER"}, out)

    def argv(self, prompt, *more):
        return ["gemini", "-p", prompt, "-m", "gemini-2.5-flash", "--output-format", "stream-json", "--approval-mode", "yolo", *more]

    def conversation(self, said):
        lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        return next(line["session_id"] for line in lines if "session_id" in line)

    def resume(self, conversation):
        return ["--resume", "latest"]


CLAUDE, CODEX, GEMINI = Claude(), Codex(), Gemini()
ALL = [CLAUDE, CODEX, GEMINI]

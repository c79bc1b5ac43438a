// The daemon on a fresh directory with real agents, and its command line. What
// the agents are given is a scripted model server; nothing leaves the machine.

import { execFile, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";

const run = promisify(execFile);
const here = import.meta.dirname;
const bin = process.env.STEWARDS_BIN ?? join(here, "../target/debug/stewards");
const CLAUDE = join(here, "node_modules/@anthropic-ai/claude-code-linux-x64/claude");
const CODEX = join(here, "node_modules/@agentclientprotocol/codex-acp/dist/index.js");

// Whatever the daemon's owner has set would reach the agents.
function clean() {
  const env = {};
  for (const name of ["PATH", "LANG", "TMPDIR"]) if (process.env[name]) env[name] = process.env[name];
  return env;
}

function codexConfig(url) {
  return [
    'model = "scripted"',
    'model_provider = "mock"',
    'approval_policy = "on-request"',
    'sandbox_mode = "danger-full-access"',
    "check_for_update_on_startup = false",
    "[model_providers.mock]",
    'name = "mock"',
    `base_url = "${url}/v1"`,
    'env_key = "MOCK_KEY"',
    'wire_api = "responses"',
    "request_max_retries = 0",
    "stream_max_retries = 0",
  ].join("\n");
}

export class Host {
  constructor(model) {
    this.root = mkdtempSync(join(tmpdir(), "stewards-e2e-"));
    this.dir = join(this.root, "data");
    const homes = join(this.root, "homes");
    mkdirSync(join(homes, "codex"), { recursive: true });
    mkdirSync(this.dir);
    writeFileSync(join(homes, "codex", "config.toml"), codexConfig(model.url));
    const providers = {
      "claude-code": {
        protocol: "stream-json",
        command: CLAUDE,
        env: {
          HOME: homes,
          CLAUDE_CONFIG_DIR: join(homes, "claude"),
          ANTHROPIC_BASE_URL: model.url,
          ANTHROPIC_API_KEY: "sk-ant-dummy",
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
          CLAUDE_CODE_MAX_RETRIES: "0",
        },
      },
      codex: {
        protocol: "acp",
        command: process.execPath,
        args: [CODEX],
        env: { HOME: homes, CODEX_HOME: join(homes, "codex"), MOCK_KEY: "dummy" },
      },
    };
    writeFileSync(join(this.dir, "settings.json"), JSON.stringify({ sweep_ms: 86400000, compact_at: 0, providers }));
    const git = (cwd, ...args) =>
      execFileSync("git", ["-c", "user.name=e2e", "-c", "user.email=e2e@localhost", ...args], { cwd, env: clean() });
    git(this.root, "init", "--quiet", "--bare", "-b", "main", "remote.git");
    git(this.root, "clone", "--quiet", "remote.git", "first");
    git(join(this.root, "first"), "commit", "--quiet", "--allow-empty", "-m", "first");
    git(join(this.root, "first"), "push", "--quiet", "origin", "HEAD:main");
  }

  async start() {
    this.daemon = spawn(bin, ["serve", "--dir", this.dir], { env: clean(), stdio: ["ignore", "ignore", "pipe"] });
    this.log ??= "";
    this.daemon.stderr.on("data", (bytes) => (this.log += bytes));
    await until("the daemon serves", () => {
      const { exitCode, signalCode } = this.daemon;
      if (exitCode !== null || signalCode !== null) throw new Error(`the daemon ended with ${signalCode ?? exitCode}:\n${this.log}`);
      const file = join(this.dir, "daemon.json");
      return existsSync(file) && JSON.parse(readFileSync(file, "utf8")).pid === this.daemon.pid;
    });
  }

  kill(signal) {
    return new Promise((done) => {
      // A start that failed leaves nothing to end.
      if (!this.daemon?.pid || this.daemon.exitCode !== null || this.daemon.signalCode !== null) return done();
      this.daemon.once("exit", done);
      this.daemon.kill(signal);
    });
  }

  // What a command prints, as JSON; a refused one throws with its words.
  async say(...args) {
    const { stdout } = await run(bin, ["--dir", this.dir, "--json", ...args], { env: clean(), maxBuffer: 1 << 26 });
    return JSON.parse(stdout);
  }

  async addProject() {
    await this.say("project", "add", "shop", "--repo", "acme/shop", "--remote", join(this.root, "remote.git"));
  }

  async spawn(provider, prompt, ...more) {
    const file = join(this.root, `prompt-${Math.random().toString(36).slice(2)}.md`);
    writeFileSync(file, prompt);
    const args = ["thread", "spawn", "--title", "e2e", "--prompt-file", file, "--model", provider, ...more];
    return (await this.say(...args)).ids.thread;
  }

  async tell(id, text, mode = "auto") {
    return this.say("thread", "tell", id, text, "--mode", mode);
  }

  // A thread's row, its messages and its transcript.
  async show(id) {
    return this.say("thread", "show", id);
  }

  async thread(id) {
    return (await this.show(id)).thread;
  }

  // Waits until nothing of the thread is at work or about to be.
  async rests(id, patience = 90) {
    try {
      return (await this.say("thread", "wait", id, "--timeout", String(patience))).thread;
    } catch (error) {
      if (error.code === 75) throw new Error(`${id} does not rest: ${error.stdout}\n${this.log.slice(-2000)}`);
      return JSON.parse(error.stdout).thread;
    }
  }

  // The same, and it must have gone well: exit code 0 and no error.
  async goesWell(id, patience = 90) {
    try {
      return (await this.say("thread", "wait", id, "--timeout", String(patience))).thread;
    } catch (error) {
      throw new Error(`waiting for ${id} ended with ${error.code}: ${error.stdout}\n${this.log.slice(-2000)}`);
    }
  }

  async until(what, id, so, patience) {
    return until(what, async () => so(await this.show(id)), patience);
  }

  // Processes that carry this directory's mark, and of one thread where it is named.
  processes(id) {
    return readdirSync("/proc").filter((pid) => {
      if (!/^\d+$/.test(pid) || Number(pid) === this.daemon?.pid) return false;
      try {
        const env = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
        if (!env.includes(`STEWARDS_MARK=${this.dir}`)) return false;
        if (readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].startsWith("Z")) return false;
        return !id || env.includes(`STEWARDS_THREAD=${id}`);
      } catch {
        return false;
      }
    });
  }

  // Whether a program of the thread runs whose command line has these words.
  runs(id, words) {
    return this.processes(id).some((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").includes(words);
      } catch {
        return false;
      }
    });
  }

  async end() {
    const mute = setTimeout(() => this.daemon?.kill("SIGKILL"), 10_000);
    await this.kill("SIGTERM");
    clearTimeout(mute);
    for (const pid of this.processes()) {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // It ended by itself in between.
      }
    }
    rmSync(this.root, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

export async function until(what, so, patience = 90) {
  const began = Date.now();
  for (;;) {
    const found = await so();
    if (found) return found;
    if (Date.now() - began > patience * 1000) throw new Error(`${what}: not within ${patience} s`);
    await sleep(50);
  }
}

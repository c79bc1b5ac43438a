// Real agents under the real daemon: Claude Code by its own protocol, Codex through
// its adapter. A scripted model server says what the model says.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Host, until } from "./host.mjs";
import { startModel } from "./model.mjs";

const script = (...steps) => `do it\n#script ${JSON.stringify(steps)}`;

// Long work is `tail -f`: Claude Code refuses to sleep. What differs between them: the name of the tool that runs a command, and how one
// has it ask for leave.
const AGENTS = [
  { provider: "claude-code", shell: (command) => ({ tool: "Bash", args: { command } }), asks: (shell) => shell },
  {
    provider: "codex",
    shell: (command) => ({ tool: "exec_command", args: { cmd: command } }),
    asks: ({ tool, args }) => ({
      tool,
      args: { ...args, sandbox_permissions: "require_escalated", justification: "to see whether it asks" },
    }),
  },
];

let model;
let host;

before(async () => {
  model = await startModel();
  host = new Host(model);
  await host.start();
  await host.addProject();
});

after(async () => {
  await host?.end();
  await model?.close();
});

const said = (shown) =>
  shown.transcript
    .map((line) => line.body.text?.text ?? "")
    .join("")
    .replaceAll(/\s+/g, " ");

// Requests whose conversation holds these words.
const heard = (words) => model.requests().filter((r) => JSON.stringify(r.body).includes(words));

for (const { provider, shell, asks } of AGENTS) {
  describe(provider, { concurrency: false }, () => {
    test("is listed with its version", async () => {
      const found = (await host.say("agents")).find((a) => a.provider === provider);
      assert.ok(found.command && !found.missing, JSON.stringify(found));
    });

    test("a plain turn is consumed, counted and measured, and the model was told who it is", async () => {
      const id = await host.spawn(provider, script({ say: "hello from the model" }));
      const thread = await host.rests(id);
      assert.equal(thread.error, null);
      const shown = await host.show(id);
      assert.match(said(shown), /hello from the model/);
      assert.equal(shown.messages[0].state, "consumed");
      assert.ok(thread.tokens.input > 0 && !thread.tokens.estimated, JSON.stringify(thread.tokens));
      assert.ok(thread.context.used > 0, JSON.stringify(thread.context));
      assert.ok(heard(`You are thread ${id} of Stewards`).length > 0);
    });

    test("a tool of ours is called as the right thread, by two at once", async () => {
      const report = { tool: "steward_report", args: { summary: "s", nextAction: "n", actor: "steward" } };
      const both = await Promise.all([1, 2].map(() => host.spawn(provider, script(report, { say: "done" }))));
      for (const id of both) {
        const thread = await host.rests(id);
        assert.equal(thread.error, null);
        // A thread without an effort has nothing to report on, and is told so by its own name.
        const results = (await host.show(id)).transcript.map((l) => l.body.tool_result?.text ?? "");
        assert.ok(results.some((t) => t.includes(id)), JSON.stringify(results));
      }
    });

    test("a message is steered into the live turn", async () => {
      const id = await host.spawn(provider, script(shell("timeout 4 tail -f /dev/null"), { say: "over" }));
      await host.until("the tool runs", id, (s) => s.transcript.some((l) => l.body.tool_call));
      const word = `STEERED-${provider}`;
      const reply = await host.tell(id, word);
      assert.match(reply.says.join(" "), /goes into its turn/);
      const thread = await host.rests(id);
      const { messages } = await host.show(id);
      assert.equal(thread.turns, 1);
      assert.deepEqual([...new Set(messages.map((m) => `${m.state} ${m.turn}`))], [`consumed ${messages[0].turn}`]);
      assert.ok(heard(word).length > 0);
    });

    test("a stop ends the whole tree within five seconds and the next message goes on", async () => {
      const id = await host.spawn(provider, script(shell("tail -f /dev/null & tail -f /dev/null"), { say: "never" }));
      await host.until("the tool runs", id, (s) => s.transcript.some((l) => l.body.tool_call));
      assert.ok(host.processes(id).length > 0);
      await host.say("thread", "stop", id);
      await until("the tree is gone", () => host.processes(id).length === 0, 5);
      assert.equal((await host.rests(id)).status, "idle");
      await host.tell(id, script({ say: "here again" }));
      await host.rests(id);
      assert.match(said(await host.show(id)), /here again/);
    });

    test("leave is asked of the person, who answers on the command line", async () => {
      const made = join(host.root, `made-${provider}.txt`);
      const id = await host.spawn(
        provider,
        script(asks(shell(`touch ${made}`)), { say: "touched" }),
        "--permission",
        "ask",
      );
      const [ask] = await until("it asks", async () => {
        const all = await host.say("thread", "interactions", id);
        return all.length && all;
      });
      const reply = await host.tell(id, "and mind the gap");
      assert.match(reply.says.join(" "), /waits for the person/);
      assert.ok(!existsSync(made));
      await host.say("thread", "interactions", "answer", ask.id, "allow");
      const thread = await host.rests(id);
      assert.equal(thread.error, null);
      assert.ok(existsSync(made));
      const shown = await host.show(id);
      assert.match(said(shown), /touched|heard: /);
      assert.ok(heard("and mind the gap").length > 0);
      assert.ok(shown.messages.every((m) => m.state === "consumed"));
    });

    test("after the daemon was killed in mid-turn the session goes on", async () => {
      const id = await host.spawn(provider, script({ say: `remember ${provider}` }));
      await host.rests(id);
      await host.tell(id, script(shell("tail -f /dev/null"), { say: "never" }));
      await host.until("the tool runs", id, (s) => s.transcript.some((l) => l.body.tool_call));
      const old = host.processes(id);
      await host.kill("SIGKILL");
      await host.start();
      assert.deepEqual(host.processes(id).filter((pid) => old.includes(pid)), []);
      const thread = await host.rests(id);
      assert.equal(thread.error, null);
      assert.ok(heard("The host was restarted during your last turn").some((r) => JSON.stringify(r.body).includes(`remember ${provider}`)));
    });

    test("compacts when it is asked to, and goes on", async () => {
      const id = await host.spawn(provider, script({ say: "one ".repeat(300) }));
      await host.rests(id);
      for (const n of [2, 3]) {
        await host.tell(id, script({ say: `turn ${n} `.repeat(300) }));
        await host.rests(id);
      }
      await host.say("thread", "compact", id);
      await host.rests(id);
      const { transcript } = await host.show(id);
      assert.ok(transcript.some((l) => l.body.compacted), JSON.stringify(transcript.slice(-3)));
      await host.tell(id, script({ say: "after it" }));
      assert.equal((await host.rests(id)).error, null);
      assert.match(said(await host.show(id)), /after it/);
    });

    test("an error of the model fails the turn, and a retry goes on", async () => {
      const id = await host.spawn(provider, script({ fail: 400, message: "the model is cross" }));
      const shown = await host.until("it failed", id, (s) => s.thread.error && s);
      assert.equal(shown.thread.status, "error");
      assert.match(shown.thread.error, /cross|400/);
      await host.tell(id, script({ say: "better now" }));
      assert.equal((await host.rests(id)).error, null);
      assert.match(said(await host.show(id)), /better now/);
    });
  });
}

test("a limit parks every thread of its provider", async () => {
  const limit = { fail: 429, message: "You've hit your usage limit, try again in 3 hours", headers: { "x-should-retry": "false" } };
  const id = await host.spawn("claude-code", script(limit));
  const thread = await until("it waits", async () => {
    const row = await host.thread(id);
    return row.waits && row;
  });
  assert.match(thread.waits, /limit until/);
  const other = await host.spawn("claude-code", script({ say: "x" }));
  assert.match((await host.thread(other)).waits, /limit until/);
});

test("at the end nothing of it is left", async () => {
  const began = Date.now();
  await host.kill("SIGTERM");
  assert.ok(Date.now() - began < 5000);
  assert.deepEqual(host.processes(), []);
});

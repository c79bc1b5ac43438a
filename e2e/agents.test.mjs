// Real agents under the real daemon: Claude Code by its own protocol, Codex through
// its adapter. A scripted model server says what the model says.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Host, until } from "./host.mjs";
import { startModel } from "./model.mjs";

const script = (...steps) => `do it\n#script ${JSON.stringify(steps)}`;
const words = (content) => (typeof content === "string" ? content : (content ?? []).map((part) => part?.text ?? "").join("\n"));
const inHours = (n) => Math.floor(Date.now() / 1000) + n * 3600;

// What differs between the agents: the tool that runs a command, how one has it ask
// for leave, what a spent allowance looks like, and where a request holds the host's
// own words and the results of tools. Long work is `tail -f`: Claude Code refuses to sleep.
const AGENTS = [
  {
    provider: "claude-code",
    shell: (command) => ({ tool: "Bash", args: { command } }),
    asks: (shell) => shell,
    limit: () => ({ fail: 429, message: "You've hit your usage limit, try again in 3 hours", headers: { "x-should-retry": "false" } }),
    context: (body) => words(body.system),
    results: (body) => (body.messages ?? []).flatMap((m) => (Array.isArray(m.content) ? m.content : [])).filter((b) => b.type === "tool_result").map((b) => words(b.content)),
  },
  {
    provider: "codex",
    shell: (command) => ({ tool: "exec_command", args: { cmd: command } }),
    asks: ({ tool, args }) => ({
      tool,
      args: { ...args, sandbox_permissions: "require_escalated", justification: "to see whether it asks" },
    }),
    limit: () => ({ fail: 429, type: "usage_limit_reached", message: "You've hit your usage limit.", error: { plan_type: "plus", resets_at: inHours(3) } }),
    context: (body) => (body.input ?? []).filter((i) => i.role === "user").map((i) => words(i.content)).join("\n"),
    results: (body) => (body.input ?? []).filter((i) => String(i.type).endsWith("_output")).map((i) => words(i.output)),
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

const ofTurn = (message) => `${message.state} ${message.turn}`;

// Requests whose conversation holds all of these words.
const heard = (...all) =>
  model.requests().filter(({ body }) => {
    const text = JSON.stringify(body);
    return all.every((some) => text.includes(some));
  });

for (const { provider, shell, asks, context, results } of AGENTS) {
  // What the model was sent on behalf of one thread, known by what the host told it there.
  const sentFor = (id) => model.requests().map((r) => r.body).filter((body) => context(body).includes(`You are thread ${id} of Stewards`));

  describe(provider, { concurrency: false }, () => {
    test("is listed with its version", async () => {
      const found = (await host.say("agents")).find((a) => a.provider === provider);
      assert.ok(found.command && !found.missing, JSON.stringify(found));
    });

    test("a plain turn is consumed, counted and measured, and the model was told who it is", async () => {
      const id = await host.spawn(provider, script({ say: "hello from the model" }), "--environment", "worktree");
      const thread = await host.goesWell(id);
      assert.equal(thread.error, null);
      assert.equal(thread.status, "idle");
      const shown = await host.show(id);
      assert.match(said(shown), /hello from the model/);
      assert.equal(shown.messages[0].state, "consumed");
      assert.ok(shown.messages[0].turn);
      assert.ok(thread.tokens.input > 0 && !thread.tokens.estimated, JSON.stringify(thread.tokens));
      assert.ok(thread.context.used > 0 && thread.context.window > thread.context.used, JSON.stringify(thread.context));
      assert.ok(sentFor(id).length > 0);
      // With the next turn too, whether it is said anew (Codex) or stands above all (Claude Code).
      await host.tell(id, script({ say: "hello once more" }));
      await host.goesWell(id);
      assert.ok(sentFor(id).some((body) => JSON.stringify(body).includes("hello once more")));
    });

    test("a tool of ours is called as the right thread, by two at once", async () => {
      const report = { wait_ms: 2500, tool: "steward_report", args: { summary: "s", nextAction: "n", actor: "steward" } };
      const both = await Promise.all([1, 2].map(() => host.spawn(provider, script(report, { say: "done" }))));
      await until("both are at work", async () => {
        const rows = await Promise.all(both.map((id) => host.thread(id)));
        return rows.every((row) => row.status === "active");
      });
      for (const id of both) {
        await host.goesWell(id);
        // A thread without an effort has nothing to report on, and is told so by its own name.
        const refusal = `${id} is no steward of an open effort\nworkers tell their steward: stewards bus report`;
        const shown = await host.show(id);
        const told = shown.transcript.flatMap((l) => l.body.tool_result ?? []);
        assert.deepEqual(told.map(({ ok, text }) => ({ ok, text })), [{ ok: false, text: refusal }]);
        const got = sentFor(id).flatMap(results);
        assert.ok(got.length > 0 && got.every((text) => text.includes(refusal)), JSON.stringify(got));
      }
    });

    test("a message is steered into the live turn", async () => {
      const id = await host.spawn(provider, script(shell("timeout 3 tail -f /dev/null"), { say: "over" }));
      await host.until("the tool runs", id, (s) => s.transcript.some((l) => l.body.tool_call));
      const word = `STEERED-${provider}`;
      const reply = await host.tell(id, word);
      assert.match(reply.says.join(" "), /goes into its turn/);
      const thread = await host.goesWell(id);
      const { messages } = await host.show(id);
      assert.equal(thread.turns, 1);
      assert.equal(messages.length, 2);
      assert.deepEqual([...new Set(messages.map(ofTurn))], [`consumed ${messages[0].turn}`]);
      assert.ok(sentFor(id).some((body) => JSON.stringify(body).includes(word) && results(body).length === 1));
    });

    test("a stop ends the whole tree within five seconds and the next message goes on", async () => {
      const id = await host.spawn(provider, script(shell("tail -f /dev/null & tail -f /dev/null"), { say: "never" }));
      // The command itself must carry the mark, or its absence later would prove nothing.
      await until("the command runs", () => host.runs(id, "tail -f"));
      await host.say("thread", "stop", id);
      await until("the tree is gone", () => host.processes(id).length === 0, 5);
      assert.equal((await host.rests(id)).status, "idle");
      await host.tell(id, script({ say: "here again" }));
      await host.goesWell(id);
      assert.match(said(await host.show(id)), /here again/);
      assert.doesNotMatch(said(await host.show(id)), /never/);
      assert.ok(sentFor(id).some((body) => ["never", "here again"].every((w) => JSON.stringify(body).includes(w))), "the same session");
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
      assert.match(JSON.stringify(ask), /touch/);
      const word = `mind the gap, ${provider}`;
      const reply = await host.tell(id, word);
      assert.match(reply.says.join(" "), /waits for the person/);
      assert.ok(!existsSync(made));
      assert.notEqual((await host.show(id)).messages[1].state, "consumed");
      assert.equal(heard(word).length, 0);
      await host.say("thread", "interactions", "answer", ask.id, "allow");
      await host.goesWell(id);
      assert.ok(existsSync(made));
      const shown = await host.show(id);
      assert.deepEqual(await host.say("thread", "interactions", id), []);
      assert.match(said(shown), /touched|heard: /);
      assert.ok(shown.messages.every((m) => m.state === "consumed" && m.turn), JSON.stringify(shown.messages));
      const got = sentFor(id).filter((body) => JSON.stringify(body).includes(word));
      assert.ok(got.length > 0 && got.every((body) => results(body).length > 0), "held until the tool had run");
    });

    test("what the person denies is not done", async () => {
      const made = join(host.root, `denied-${provider}.txt`);
      const id = await host.spawn(provider, script(asks(shell(`touch ${made}`)), { say: "so be it" }), "--permission", "ask");
      const ask = await host.until("it asks", id, (s) => s.interactions[0]);
      await host.say("thread", "interactions", "answer", ask.id, "deny");
      const thread = await host.goesWell(id);
      assert.equal(thread.asks, 0);
      assert.ok(!existsSync(made));
    });

    test("after the daemon was killed in mid-turn the session goes on", async () => {
      const id = await host.spawn(provider, script({ say: `remember ${provider}` }));
      await host.goesWell(id);
      await host.tell(id, script(shell("tail -f /dev/null"), { say: "never" }));
      await until("the command runs", () => host.runs(id, "tail -f"));
      const old = host.processes(id);
      await host.kill("SIGKILL");
      await host.start();
      assert.deepEqual(host.processes(id).filter((pid) => old.includes(pid)), []);
      const thread = await host.goesWell(id);
      assert.equal(thread.error, null);
      const { messages } = await host.show(id);
      const goOn = "The host was restarted during your last turn";
      assert.deepEqual(messages.map((m) => m.text.includes(goOn)), [false, false, true]);
      assert.equal(messages[2].state, "consumed");
      // The same session: both turns before it are in the conversation.
      assert.ok(sentFor(id).some((body) => [goOn, `remember ${provider}`, "never"].every((w) => JSON.stringify(body).includes(w))));
    });

    test("what the person stops stays stopped, though the daemon is killed before that is done", async () => {
      const id = await host.spawn(provider, script(shell("tail -f /dev/null"), { say: "never" }));
      await until("the command runs", () => host.runs(id, "tail -f"));
      await host.say("thread", "stop", id);
      await host.kill("SIGKILL");
      await host.start();
      await host.rests(id);
      const { thread, messages } = await host.show(id);
      assert.equal(thread.status, "idle");
      assert.deepEqual(messages.map((m) => m.cause), ["prompt"]);
      assert.equal(thread.turns, 1);
    });

    test("compacts when it is asked to, and goes on", async () => {
      const id = await host.spawn(provider, script({ say: "one ".repeat(300) }));
      await host.goesWell(id);
      for (const n of [2, 3]) {
        await host.tell(id, script({ say: `turn ${n} `.repeat(300) }));
        await host.goesWell(id);
      }
      await host.say("thread", "compact", id);
      await host.goesWell(id);
      const { transcript } = await host.show(id);
      assert.ok(transcript.some((l) => l.body.compacted), JSON.stringify(transcript.slice(-3)));
      await host.tell(id, script({ say: "after it" }));
      await host.goesWell(id);
      assert.match(said(await host.show(id)), /after it/);
      const [next] = heard("after it", "summary of the conversation").slice(-1);
      assert.ok(next, "the summary stands for the conversation");
      // The user's own texts may stay, as Codex has it.
      const answers = (next.body.messages ?? next.body.input).filter((m) => m.role === "assistant");
      assert.ok(!JSON.stringify(answers).includes("turn 2 turn 2"), "what the model said before is gone");
      assert.ok(context(next.body).includes(`You are thread ${id} of Stewards`), "it still knows who it is");
    });

    test("an error of the model fails the turn, and a retry goes on", async () => {
      const id = await host.spawn(provider, script({ fail: 400, message: "the model is cross" }));
      const shown = await host.until("it failed", id, (s) => s.thread.error && s);
      const failed = Date.now();
      assert.equal(shown.thread.status, "error");
      assert.match(shown.thread.error, /cross|400/);
      await host.say("thread", "retry", id);
      const thread = await host.goesWell(id);
      assert.ok(Date.now() - failed < 9000, "before the daemon tries again by itself");
      assert.equal(thread.error, null);
      assert.equal(thread.turns, 2);
      assert.ok(sentFor(id).some((body) => JSON.stringify(body).includes("Your last turn failed before it was finished")));
      await host.tell(id, script({ say: "better now" }));
      await host.goesWell(id);
      assert.match(said(await host.show(id)), /better now/);
    });
  });
}

// One thread of each agent, in the middle of a command.
async function busy() {
  const ids = await Promise.all(AGENTS.map(({ provider, shell }) => host.spawn(provider, script(shell("tail -f /dev/null"), { say: "never" }))));
  for (const id of ids) await until("the command runs", () => host.runs(id, "tail -f"));
  return ids;
}

test("all are stopped at once, stay stopped over a restart, and go on when they may", async () => {
  const ids = await busy();
  await host.say("stop", "--all");
  await until("every tree is gone", () => host.processes().length === 0, 5);
  // Else the daemon would end in the middle of it, which is another story.
  for (const id of ids) await host.until("its turn has ended", id, (s) => s.thread.status === "idle");
  const late = await host.spawn(AGENTS[0].provider, script({ say: "at last" }));
  await host.kill("SIGTERM");
  await host.start();
  for (const id of [...ids, late]) assert.match((await host.thread(id)).waits ?? "", /stop/, id);
  assert.deepEqual(host.processes(), []);
  await host.say("resume");
  for (const id of [...ids, late]) assert.equal((await host.goesWell(id)).waits, null);
  for (const id of ids) assert.ok(heard(`thread ${id} of`, "The owner stopped all agents during your last turn").length > 0, id);
  assert.match(said(await host.show(late)), /at last/);
});

// Near the end, for it holds up every thread of its provider.
for (const { provider, limit } of AGENTS) {
  test(`a limit parks every thread of ${provider}, until the person has it tried again`, async () => {
    const id = await host.spawn(provider, script(limit()));
    const thread = await host.until("it waits", id, (s) => s.thread.waits && s.thread);
    const end = Date.parse(thread.waits.match(/limit until (\S+ \S+ UTC)/)?.[1]);
    assert.ok(Math.abs(end / 1000 - inHours(3)) < 300, thread.waits);
    const other = await host.spawn(provider, script({ say: "let through" }));
    assert.match((await host.thread(other)).waits, /limit until/);
    await host.say("thread", "retry", id);
    for (const one of [id, other]) assert.equal((await host.goesWell(one)).waits, null);
    assert.match(said(await host.show(other)), /let through/);
  });
}

test("at the end nothing of it is left", async () => {
  // Agents in mid-turn, with commands under them, are the hard case.
  await busy();
  const began = Date.now();
  await host.kill("SIGTERM");
  assert.ok(Date.now() - began < 5000);
  assert.deepEqual(host.processes(), []);
});

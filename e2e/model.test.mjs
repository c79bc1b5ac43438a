// Proves that the scripted model server can play the model for the real agents, without our daemon.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { startModel } from './model.mjs';

const MODULES = path.join(import.meta.dirname, 'node_modules');
const CLAUDE = path.join(MODULES, '@anthropic-ai/claude-code-linux-x64/claude');
const CODEX_ACP = path.join(MODULES, '@agentclientprotocol/codex-acp/dist/index.js');
// A machine that builds at the same time can make an agent's start very slow.
const PATIENCE = 90_000;

const script = (...steps) => `do it\n#script ${JSON.stringify(steps)}`;

function temp(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'model-test-'));
  // The agent may still be writing while it dies: the removal tries again, and what
  // it cannot remove is no fault of what is tested.
  t.after(() => fs.promises.rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }).catch(() => {}));
  return folder;
}

async function model(t) {
  const server = await startModel();
  t.after(() => server.close());
  return server;
}

// An agent that speaks one JSON value per line, in a process group of its own.
function agent(t, command, args, { env, cwd }) {
  const child = spawn(command, args, { cwd, env: { PATH: process.env.PATH, ...env }, detached: true });
  const lines = [];
  const waiting = new Set();
  let rest = '';
  let errors = '';
  const look = () => waiting.forEach((check) => check());
  child.stderr.on('data', (data) => (errors += data));
  child.stdin.on('error', () => {});
  child.stdout.setEncoding('utf8').on('data', (data) => {
    const parts = (rest + data).split('\n');
    rest = parts.pop();
    lines.push(...parts.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line)));
    look();
  });
  child.on('close', look);
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    process.kill(-child.pid, 'SIGKILL');
    await new Promise((gone) => child.once('close', gone));
  });
  return {
    lines,
    send: (value) => child.stdin.write(`${JSON.stringify(value)}\n`),
    wait: (what, from = 0) =>
      new Promise((found, fail) => {
        const end = (settle, value) => {
          clearTimeout(timer);
          waiting.delete(check);
          settle(value);
        };
        const check = () => {
          const line = lines.slice(from).find(what);
          if (line) end(found, line);
          else if (child.exitCode !== null || child.signalCode !== null) end(fail, new Error(`the agent ended: ${errors}`));
        };
        const timer = setTimeout(() => end(fail, new Error(`no such line; stderr: ${errors}\n${JSON.stringify(lines.slice(-5))}`)), PATIENCE);
        waiting.add(check);
        check();
      }),
  };
}

function claude(t, url) {
  const home = temp(t);
  const stream = ['--input-format', 'stream-json', '--output-format', 'stream-json', '--verbose'];
  const running = agent(t, CLAUDE, ['-p', ...stream, '--permission-prompt-tool', 'stdio'], {
    cwd: home,
    env: {
      HOME: home,
      CLAUDE_CONFIG_DIR: path.join(home, '.claude'),
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'sk-ant-dummy',
      DISABLE_AUTOUPDATER: '1',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      CLAUDE_CODE_MAX_RETRIES: '1',
    },
  });
  running.home = home;
  running.user = (text) => running.send({ type: 'user', message: { role: 'user', content: [{ type: 'text', text }] } });
  return running;
}

async function codex(t, url) {
  const home = temp(t);
  fs.writeFileSync(path.join(home, 'config.toml'), [
    'model = "scripted"',
    'model_provider = "mock"',
    'approval_policy = "never"',
    'sandbox_mode = "danger-full-access"',
    'check_for_update_on_startup = false',
    '[model_providers.mock]',
    'name = "mock"',
    `base_url = "${url}/v1"`,
    'env_key = "MOCK_KEY"',
    'wire_api = "responses"',
    'request_max_retries = 1',
    'stream_max_retries = 1',
  ].join('\n'));
  const running = agent(t, process.execPath, [CODEX_ACP], {
    cwd: home,
    env: { HOME: home, CODEX_HOME: home, MOCK_KEY: 'dummy', NO_BROWSER: '1' },
  });
  let id = 0;
  running.call = async (method, params) => {
    const mine = ++id;
    running.send({ jsonrpc: '2.0', id: mine, method, params });
    const answer = await running.wait((line) => line.id === mine && !line.method);
    assert.equal(answer.error, undefined, JSON.stringify(answer.error));
    return answer.result;
  };
  const clientCapabilities = { fs: { readTextFile: false, writeTextFile: false }, terminal: false };
  await running.call('initialize', { protocolVersion: 1, clientCapabilities });
  const { sessionId } = await running.call('session/new', { cwd: home, mcpServers: [] });
  // The adapter's own default mode asks the model to judge each command, which a script cannot do.
  await running.call('session/set_mode', { sessionId, modeId: 'agent-full-access' });
  running.prompt = (text) => running.call('session/prompt', { sessionId, prompt: [{ type: 'text', text }] });
  running.updates = (kind) => running.lines.map((line) => line.params?.update).filter((update) => update?.sessionUpdate === kind);
  return running;
}

test('bad input is answered and does not end the server', async (t) => {
  const server = await model(t);
  const post = (route, body) => fetch(server.url + route, { method: 'POST', headers: { 'x-api-key': 'dummy' }, body });
  for (const body of ['{', 'null', '[]', '{"messages":3}', '{"messages":[null,{"content":[null]}]}', '{"messages":[{"content":{}}]}']) {
    assert.ok([200, 400].includes((await post('/v1/messages', body)).status), body);
  }
  for (const body of ['', '{"input":3}', '{"input":[null],"tools":[null]}']) assert.ok([200, 400].includes((await post('/v1/responses', body)).status), body);
  const content = script({ fail: 429, message: 'slow down', retry_after: 7 });
  const limited = await post('/v1/messages', JSON.stringify({ messages: [{ role: 'user', content }] }));
  assert.equal(limited.status, 429);
  assert.equal(limited.headers.get('retry-after'), '7');
  assert.equal((await limited.json()).error.type, 'rate_limit_error');
  assert.ok(!JSON.stringify(server.requests()).includes('dummy'));
  assert.equal((await fetch(server.url, { method: 'HEAD' })).status, 200);
});

test('Claude Code: a plain turn, and a tool that asks first', { timeout: 2 * PATIENCE }, async (t) => {
  const server = await model(t);
  const running = claude(t, server.url);
  running.user(script({ say: 'hello from the script', words_ms: 5 }));
  const first = await running.wait((line) => line.type === 'result');
  assert.equal(first.is_error, false);
  assert.equal(first.result, 'hello from the script');

  const from = running.lines.length;
  running.user(script({ say: 'now' }, { tool: 'Bash', args: { command: 'echo made > made.txt' } }, { say: 'all done', input_tokens: 4321 }));
  const ask = await running.wait((line) => line.type === 'control_request', from);
  assert.equal(ask.request.subtype, 'can_use_tool');
  assert.equal(ask.request.tool_name, 'Bash');
  assert.ok(!fs.existsSync(path.join(running.home, 'made.txt')));
  const response = { behavior: 'allow', updatedInput: ask.request.input };
  running.send({ type: 'control_response', response: { subtype: 'success', request_id: ask.request_id, response } });
  const second = await running.wait((line) => line.type === 'result', from);
  assert.equal(second.result, 'all done');
  assert.equal(fs.readFileSync(path.join(running.home, 'made.txt'), 'utf8'), 'made\n');
  const last = await running.wait((line) => line.type === 'assistant' && line.message.content[0].text === 'all done');
  assert.equal(last.message.usage.input_tokens, 4321);
});

test('Codex over ACP: a plain turn, and a shell command', { timeout: 2 * PATIENCE }, async (t) => {
  const server = await model(t);
  const running = await codex(t, server.url);
  assert.equal((await running.prompt(script({ say: 'hello from the script', words_ms: 5 }))).stopReason, 'end_turn');
  const text = () => running.updates('agent_message_chunk').map((update) => update.content.text).join('');
  assert.match(text(), /hello from the script$/);

  const steps = [{ tool: 'exec_command', args: { cmd: 'echo from-the-shell' } }, { say: 'all done', input_tokens: 4321 }];
  assert.equal((await running.prompt(script(...steps))).stopReason, 'end_turn');
  assert.match(text(), /all done$/);
  assert.equal(running.updates('tool_call').at(-1).title, 'echo from-the-shell');
  const outputs = server.requests().flatMap((request) => request.body.input ?? []).filter((item) => item.type === 'function_call_output');
  assert.match(outputs.at(-1).output, /from-the-shell/);
  assert.ok(running.updates('usage_update').at(-1).used >= 4321);
});

// The OpenAI Responses wire format of the scripted model.

import { randomUUID } from 'node:crypto';
import { pieces, textOf } from './model-anthropic.mjs';
import { findTool, plan } from './model-script.mjs';

const ERROR_TYPES = { 400: 'invalid_request_error', 401: 'invalid_request_error', 429: 'rate_limit_exceeded', 529: 'server_error' };
const ERROR_CODES = { 401: 'invalid_api_key', 429: 'rate_limit_exceeded', 529: 'server_is_overloaded' };

const id = (prefix) => `${prefix}_${randomUUID().replaceAll('-', '').slice(0, 24)}`;

export async function responses(body, size, out, compact) {
  const { entries, system, tools } = conversation(body);
  if (compact) return out.json(200, { output: [message('summary of the conversation')] });
  const steps = plan({ entries, system, toolCount: tools.length, maxTokens: body.max_output_tokens });
  const input_tokens = steps.findLast((step) => 'input_tokens' in step)?.input_tokens ?? size;
  const response = { id: id('resp'), object: 'response', created_at: Math.floor(Date.now() / 1000), model: body.model, status: 'in_progress', output: [] };
  const stream = body.stream === true;
  let sequence_number = 0;
  const event = (type, data) => stream && out.event(type, { sequence_number: sequence_number++, ...data });
  const open = () => {
    if (stream && !out.opened) event('response.created', { response });
  };
  const output = [];
  for (const step of steps) {
    if (step.wait_ms) await out.pause(step.wait_ms);
    if ('fail' in step) return fail(step, response, out, event);
    const item = itemOf(step, tools);
    if (!item) continue;
    const output_index = output.push(item) - 1;
    open();
    if (item.type === 'message') await streamText(item, output_index, step, out, event);
    else event('response.output_item.added', { output_index, item: { ...item, status: 'in_progress' } });
    event('response.output_item.done', { output_index, item });
  }
  const output_tokens = Math.ceil(JSON.stringify(output).length / 4);
  const usage = {
    input_tokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input_tokens + output_tokens,
  };
  const done = { ...response, status: 'completed', output, usage };
  if (!stream) return out.json(200, done);
  open();
  event('response.completed', { response: done });
  out.end();
}

function message(text) {
  return { type: 'message', id: id('msg'), role: 'assistant', status: 'completed', content: [{ type: 'output_text', text, annotations: [] }] };
}

function itemOf(step, tools) {
  if ('say' in step) return message(String(step.say));
  if (!('tool' in step)) return null;
  const tool = findTool(tools, String(step.tool));
  const runner = tools.find((one) => one.kind === 'custom' && one.name === 'exec');
  if (!tool && runner) return inCode(step, runner);
  if (!tool) return message(`no tool named ${step.tool} among ${tools.map((one) => one.name).join(', ')}`);
  const call = { call_id: id('call'), status: 'completed', name: tool.name };
  if (tool.namespace) call.namespace = tool.namespace;
  const args = step.args ?? {};
  if (tool.kind === 'custom') return { type: 'custom_tool_call', id: id('ctc'), ...call, input: typeof args === 'string' ? args : String(args.input ?? '') };
  return { type: 'function_call', id: id('fc'), ...call, arguments: JSON.stringify(args) };
}

// Newer models of Codex get one tool that runs JavaScript, and the other tools only inside of it.
function inCode(step, runner) {
  const wanted = JSON.stringify(String(step.tool));
  const input = [
    `const wanted = ${wanted};`,
    "const { name } = ALL_TOOLS.find((tool) => tool.name === wanted) ?? ALL_TOOLS.find((tool) => tool.name.endsWith('__' + wanted)) ?? { name: wanted };",
    `text(await tools[name](${JSON.stringify(step.args ?? {})}));`,
  ].join('\n');
  const namespace = runner.namespace ? { namespace: runner.namespace } : {};
  return { type: 'custom_tool_call', id: id('ctc'), call_id: id('call'), status: 'completed', name: runner.name, ...namespace, input };
}

async function streamText(item, output_index, step, out, event) {
  const [part] = item.content;
  const place = { item_id: item.id, output_index, content_index: 0 };
  event('response.output_item.added', { output_index, item: { ...item, status: 'in_progress', content: [] } });
  event('response.content_part.added', { ...place, part: { ...part, text: '' } });
  for (const [i, delta] of pieces(part.text, step.words_ms).entries()) {
    if (i > 0) await out.pause(step.words_ms);
    event('response.output_text.delta', { ...place, delta });
  }
  event('response.output_text.done', { ...place, text: part.text });
  event('response.content_part.done', { ...place, part });
}

function fail(step, response, out, event) {
  const error = {
    type: step.type ?? ERROR_TYPES[step.fail] ?? 'server_error',
    code: ERROR_CODES[step.fail] ?? null,
    message: step.message ?? 'scripted failure',
    param: null,
    ...step.error,
  };
  if (out.opened) {
    event('response.failed', { response: { ...response, status: 'failed', error } });
    return out.end();
  }
  const headers = { ...step.headers };
  if (step.retry_after !== undefined) headers['retry-after'] = String(step.retry_after);
  return out.json(Number(step.fail), { error }, headers);
}

// Tools stand at the top, in namespaces (one for each MCP server), and in the items of a tool search.
function conversation(body) {
  const input = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input;
  if (!Array.isArray(input)) throw new Error('input must be a list or a string');
  const tools = [];
  const offer = (list, namespace) => {
    for (const tool of Array.isArray(list) ? list : []) {
      if (tool?.type === 'namespace') offer(tool.tools, tool.name);
      else if (tool) tools.push({ name: String(tool.name ?? tool.type), namespace, kind: tool.type });
    }
  };
  offer(body.tools);
  let system = String(body.instructions ?? '');
  const entries = [];
  for (const item of input) {
    const type = String(item?.type ?? 'message');
    if (item?.tools) offer(item.tools);
    if (type.endsWith('_output')) entries.push({ role: 'tool', text: textOf(item.output) });
    else if (type === 'message' && (item.role === 'developer' || item.role === 'system')) system += `\n${textOf(item.content)}`;
    else if (type === 'message') entries.push({ role: item.role === 'assistant' ? 'assistant' : 'user', text: textOf(item.content) });
  }
  return { entries, system, tools };
}

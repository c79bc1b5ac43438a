// The Anthropic Messages wire format of the scripted model.

import { randomUUID } from 'node:crypto';
import { findTool, plan } from './model-script.mjs';

const ERROR_TYPES = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

const id = (prefix) => `${prefix}_${randomUUID().replaceAll('-', '').slice(0, 24)}`;

export async function anthropic(body, size, out) {
  const tools = (body.tools ?? []).map((tool) => ({ name: String(tool?.name), kind: 'function' }));
  const steps = plan({
    entries: conversation(body.messages),
    system: textOf(body.system),
    toolCount: tools.length,
    maxTokens: body.max_tokens,
  });
  const input_tokens = steps.findLast((step) => 'input_tokens' in step)?.input_tokens ?? size;
  const usage = { input_tokens, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 1 };
  const message = { id: id('msg'), type: 'message', role: 'assistant', model: body.model, content: [], stop_reason: null, stop_sequence: null, usage };
  const content = [];
  const stream = body.stream === true;
  const open = () => {
    if (stream && !out.opened) out.event('message_start', { message });
  };
  for (const step of steps) {
    if (step.wait_ms) await out.pause(step.wait_ms);
    if ('fail' in step) return fail(step, out);
    const block = blockOf(step, tools);
    if (!block) continue;
    const index = content.push(block) - 1;
    open();
    if (stream) await streamBlock(block, index, step, out);
    else if (step.words_ms) await out.pause(step.words_ms * String(step.say).split(/\s+/).length);
  }
  const stop_reason = content.at(-1)?.type === 'tool_use' ? 'tool_use' : 'end_turn';
  const full = { ...usage, output_tokens: Math.ceil(JSON.stringify(content).length / 4) };
  if (!stream) return out.json(200, { ...message, content, stop_reason, usage: full });
  open();
  out.event('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: full });
  out.event('message_stop', {});
  out.end();
}

function blockOf(step, tools) {
  if ('say' in step) return { type: 'text', text: String(step.say) };
  if (!('tool' in step)) return null;
  const tool = findTool(tools, String(step.tool));
  // A sentence shows up in the test's output, so that a wrong name is found at once.
  if (!tool) return { type: 'text', text: `no tool named ${step.tool} among ${tools.map((one) => one.name).join(', ')}` };
  return { type: 'tool_use', id: id('toolu'), name: tool.name, input: step.args ?? {} };
}

async function streamBlock(block, index, step, out) {
  const isText = block.type === 'text';
  out.event('content_block_start', { index, content_block: isText ? { type: 'text', text: '' } : { ...block, input: {} } });
  if (isText) {
    for (const [i, text] of pieces(block.text, step.words_ms).entries()) {
      if (i > 0) await out.pause(step.words_ms);
      out.event('content_block_delta', { index, delta: { type: 'text_delta', text } });
    }
  } else {
    out.event('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json: JSON.stringify(block.input) } });
  }
  out.event('content_block_stop', { index });
}

/** Words with the space that follows them, or the whole text when it is not to be slow. */
export function pieces(text, wordsMs) {
  return wordsMs ? text.split(/(?<=\s)(?=\S)/) : [text];
}

function fail(step, out) {
  const error = { type: step.type ?? ERROR_TYPES[step.fail] ?? 'api_error', message: step.message ?? 'scripted failure' };
  const answer = { type: 'error', error, request_id: id('req') };
  if (out.opened) {
    out.event('error', answer);
    return out.end();
  }
  const headers = { ...step.headers };
  if (step.retry_after !== undefined) headers['retry-after'] = String(step.retry_after);
  return out.json(Number(step.fail), answer, headers);
}

// One entry per text and per tool result, in order: a steered message comes beside the tool's result.
function conversation(messages) {
  if (!Array.isArray(messages)) throw new Error('messages must be a list');
  const entries = [];
  for (const message of messages) {
    const blocks = typeof message?.content === 'string' ? [{ type: 'text', text: message.content }] : (message?.content ?? []);
    const results = blocks.filter((block) => block?.type === 'tool_result');
    for (const result of results) entries.push({ role: 'tool', text: textOf(result.content) });
    const role = message?.role === 'assistant' ? 'assistant' : 'user';
    if (message?.role === 'system') continue;
    for (const block of blocks) if (block?.type === 'text') entries.push({ role, text: String(block.text) });
  }
  return entries;
}

export function textOf(content) {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map((part) => String(part?.text ?? '')).join('\n') : '';
}

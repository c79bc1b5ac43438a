// A model server that plays scripts, so that real coding agents can be tested offline.
// A user text decides what it answers: a line `#script [steps]` (see model-script.mjs).
// Steps: {"say","words_ms"}, {"tool","args"}, {"wait_ms"}, {"fail","message","retry_after"};
// `input_tokens` on a step of the response is what the usage reports, which can force a compaction.

import http from 'node:http';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { anthropic } from './model-anthropic.mjs';
import { responses } from './model-responses.mjs';

const MAX_BODY = 64 * 1024 * 1024;
const SECRET = /authorization|api-key|cookie|token/i;
const MODELS = ['claude-sonnet-5', 'gpt-5.4', 'scripted'];

export async function startModel(port = 0) {
  const seen = [];
  const server = http.createServer((request, response) => {
    serve(request, response, seen).catch((error) => {
      // A client that went away is normal (cancel, steer); everything else is the client's bad input.
      if (response.destroyed) return;
      if (response.headersSent) response.destroy();
      else sendJson(response, error.status ?? 400, { error: { type: 'invalid_request_error', message: String(error.message) } });
    });
  });
  server.on('clientError', (_, socket) => socket.destroy());
  await new Promise((ready, fail) => server.once('error', fail).listen(port, '127.0.0.1', ready));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests: () => seen.slice(),
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}

async function serve(request, response, seen) {
  response.on('error', () => {});
  const path = request.url.split('?')[0];
  if (request.method === 'HEAD') return response.writeHead(200).end();
  if (request.method === 'GET') {
    if (path === '/') return sendJson(response, 200, { ok: true });
    if (path === '/requests') return sendJson(response, 200, seen);
    if (path === '/v1/models') return sendJson(response, 200, modelList());
    return sendJson(response, 404, { error: { type: 'not_found_error', message: `no such path: ${path}` } });
  }
  const raw = await readBody(request);
  const body = JSON.parse(raw.toString('utf8'));
  if (body === null || typeof body !== 'object' || Array.isArray(body)) throw new Error('the body must be a JSON object');
  const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !SECRET.test(name)));
  seen.push({ method: request.method, path: request.url, headers, body });
  const size = Math.ceil(raw.length / 4);
  if (path === '/v1/messages/count_tokens') return sendJson(response, 200, { input_tokens: size });
  if (path === '/v1/messages') return anthropic(body, size, transport(response));
  if (path === '/v1/responses' || path === '/v1/responses/compact') return responses(body, size, transport(response), path.endsWith('compact'));
  return sendJson(response, 404, { error: { type: 'not_found_error', message: `no such path: ${path}` } });
}

function modelList() {
  const data = MODELS.map((id) => ({ id, object: 'model', type: 'model', display_name: id, created: 0, created_at: '2026-01-01T00:00:00Z' }));
  return { object: 'list', data, has_more: false, first_id: MODELS[0], last_id: MODELS.at(-1) };
}

async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BODY) throw Object.assign(new Error('the body is too large'), { status: 413 });
    chunks.push(chunk);
  }
  const raw = Buffer.concat(chunks);
  const encoding = request.headers['content-encoding'];
  const unpack = { gzip: zlib.gunzip, deflate: zlib.inflate, br: zlib.brotliDecompress }[encoding];
  if (encoding && encoding !== 'identity' && !unpack) throw new Error(`unknown content-encoding ${encoding}`);
  return unpack ? promisify(unpack)(raw, { maxOutputLength: MAX_BODY }) : raw;
}

function sendJson(response, status, value, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
}

// What a wire format needs of the connection. The stream opens late, so that a failure can still be a status.
function transport(response) {
  let opened = false;
  return {
    get opened() {
      return opened;
    },
    json: (status, value, headers) => sendJson(response, status, value, headers),
    event(type, data) {
      if (response.destroyed) throw new Error('the client is gone');
      if (!opened) response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
      opened = true;
      response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
    },
    end: () => response.end(),
    // Ends early when the client goes away, so that no stream outlives its reader.
    async pause(ms) {
      const until = Date.now() + Math.min(Number(ms) || 0, 600_000);
      while (Date.now() < until) {
        if (response.destroyed) throw new Error('the client is gone');
        await new Promise((wake) => setTimeout(wake, Math.min(50, Math.max(1, until - Date.now()))));
      }
    },
  };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const model = await startModel(Number(process.argv[2] ?? 0));
  console.log(model.url);
}

// Decides what the scripted model says next, from nothing but the conversation in the request.
// Keeping no state here means that a resumed, retried or compacted conversation just goes on.

const SUMMARY = 'summary of the conversation';

// Texts that agents put into user messages by themselves. They are never "what the user said".
const INJECTED =
  /^\s*(<environment_context>|<user_instructions>|<permissions|<skills|<apps|<local-command-|<command-name>|# AGENTS\.md|Another language model started|This session is being continued)/;
// A cancelled turn leaves such a mark; the script of that turn is over then.
const CANCELLED = /^\s*(\[Request interrupted by user|<turn_aborted>)/;
const WANTS_SUMMARY = /CONTEXT CHECKPOINT COMPACTION|create a (detailed|handoff) summary|detailed summary of (the|this|our|your) conversation/i;
const SIDE_JOB = /\btitle\b|<session>/i;

/** The steps of the last script line in a text, or null. A line that is not valid JSON is no script. */
export function scriptIn(text) {
  let steps = null;
  for (const line of text.split('\n')) {
    const at = line.match(/^\s*#script\s+(?=\[)/);
    if (!at) continue;
    const found = leadingArray(line.slice(at[0].length));
    if (found) steps = found.filter((step) => step && typeof step === 'object');
  }
  return steps;
}

// Agents may append text to the line (closing tags), so the array is cut at its own bracket.
function leadingArray(source) {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < source.length; i++) {
    const c = source[i];
    if (quoted) {
      if (c === '\\') i++;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === '[' || c === '{') depth++;
    else if ((c === ']' || c === '}') && --depth === 0) {
      try {
        return JSON.parse(source.slice(0, i + 1));
      } catch {
        return null;
      }
    }
  }
  return null;
}

/** What the user wrote, without the reminders and frames that agents put around it. */
export function plainText(text) {
  const bare = text.replace(/<system-reminder>([\s\S]*?)<\/system-reminder>/g, (_, inside) => {
    // A steered message may come inside such a frame, and then it is the user's own text.
    return /user sent a new message|user sent the following message/i.test(inside) ? unframe(inside) : '';
  });
  return unframe(bare).trim();
}

function unframe(text) {
  return text
    .replace(/^\s*The user sent (a new|the following) message[^\n]*:\s*\n?/i, '')
    .replace(/\n+\s*(IMPORTANT|This is how Claude Code|After completing your current task|Please address this message)[\s\S]*$/, '');
}

const isUserText = (entry) =>
  entry.role === 'user' && plainText(entry.text) !== '' && !INJECTED.test(entry.text) && !CANCELLED.test(entry.text);

/**
 * entries: [{role: 'user'|'assistant'|'tool', text}], oldest first.
 * The answer is the list of steps of this one response: `say` steps, and at most one `tool` or `fail` at its end.
 */
export function plan({ entries, system = '', toolCount = 0, maxTokens = null }) {
  const users = entries.filter(isUserText);
  const last = users.at(-1)?.text ?? '';
  const at = entries.findLastIndex((entry) => entry.role === 'user' && scriptIn(entry.text));
  if (WANTS_SUMMARY.test(last) && !scriptIn(last)) return [{ say: summary(entries, at) }];
  if (maxTokens === 1 || (toolCount === 0 && SIDE_JOB.test(system + last)) || at < 0) return [{ say: 'ok' }];
  const rest = remaining(entries, at);
  if (rest.length > 0) return upToEnd(rest).map((step) => (step.quote === 'system' ? { say: system } : step));
  const quote = plainText(last).split('\n').filter((line) => !line.trimStart().startsWith('#script')).join('\n');
  return [{ say: `heard: ${quote.slice(0, 200)}`.trimEnd() }];
}

// The summary replaces the history, so it carries the part of the script that is still to come.
function summary(entries, at) {
  if (at < 0) return SUMMARY;
  // The request for the summary is itself a user text and must not count as a new message.
  const before = entries.slice(0, entries.findLastIndex(isUserText));
  return `${SUMMARY}\n#script ${JSON.stringify(remaining(before, at))}`;
}

// Tool results count the tool steps that are done; an answer without a tool is the end of the script.
function remaining(entries, at) {
  const later = entries.slice(at + 1);
  if (later.some((entry) => CANCELLED.test(entry.text))) return [];
  const results = later.filter((entry) => entry.role === 'tool').length;
  let rest = scriptIn(entries[at].text);
  for (let done = 0; done < results; done++) {
    const tool = rest.findIndex((step) => 'tool' in step);
    if (tool < 0) return [];
    rest = rest.slice(tool + 1);
  }
  const after = later.slice(later.findLastIndex((entry) => entry.role === 'tool') + 1);
  const spoke = after.findIndex((entry) => entry.role === 'assistant' && entry.text.trim() !== '');
  if (spoke >= 0 && !rest.some((step) => 'tool' in step)) return [];
  if (spoke >= 0 && after.slice(spoke).some(isUserText)) return [];
  // A failed request leaves no trace in the history, so a new message is what gets past it.
  if ('fail' in (upToEnd(rest).at(-1) ?? {}) && after.some(isUserText)) return [];
  return rest;
}

function upToEnd(steps) {
  const end = steps.findIndex((step) => 'tool' in step || 'fail' in step);
  return end < 0 ? steps : steps.slice(0, end + 1);
}

/** A tool by its exact name, else by the end of its (full) name. tools: [{name, namespace, kind}]. */
export function findTool(tools, wanted) {
  const full = (tool) => (tool.namespace ? `${tool.namespace}__${tool.name}` : tool.name);
  return (
    tools.find((tool) => tool.name === wanted || full(tool) === wanted) ??
    tools.find((tool) => full(tool).endsWith(`__${wanted}`)) ??
    tools.find((tool) => full(tool).endsWith(wanted)) ??
    null
  );
}

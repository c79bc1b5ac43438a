// Keeps the page true while it is open. Everything here is an extra: without
// it the page reads the same and its forms work.

const REGIONS = ".live[id]";
const POLL = 3000;
const LONGEST_WAIT = 30000;

const told = document.getElementById("said");
const link = document.getElementById("link");

// ---------------------------------------------------------------- swapping

// The wanted nodes are merged into those that are there, so that focus, typing,
// scroll positions and opened details stay where the reader left them.
function mergeChildren(have, want) {
  const wanted = new Set([...want.children].map((e) => e.id).filter(Boolean));
  for (const old of [...have.children]) {
    if (old.id && !wanted.has(old.id)) old.remove();
  }
  let at = have.firstChild;
  for (const node of [...want.childNodes]) {
    const found = node.id ? childById(have, node.id) : at && alike(at, node) ? at : null;
    if (!found) {
      have.insertBefore(document.importNode(node, true), at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else have.insertBefore(found, at);
    merge(found, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function childById(parent, id) {
  return [...parent.children].find((e) => e.id === id) ?? null;
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && !a.id && !b.id;
}

function merge(have, want) {
  if (have.nodeType !== Node.ELEMENT_NODE) {
    if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
    return;
  }
  // A pressed form and a refusal being read are not taken away.
  if (have.hasAttribute("data-keep")) return;
  for (const { name, value } of [...want.attributes]) {
    if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  }
  for (const { name } of [...have.attributes]) {
    // Whether details are open is the reader's business.
    if (name !== "open" && !want.hasAttribute(name)) have.removeAttribute(name);
  }
  mergeChildren(have, want);
}

function swap(regions) {
  const root = document.scrollingElement;
  const long = root.scrollHeight > innerHeight + 40;
  const following = long && root.scrollHeight - root.scrollTop - innerHeight < 40;
  const focused = document.activeElement;
  const home = focused?.closest(REGIONS);
  for (const { id, within, content } of regions) {
    let region = document.getElementById(id);
    if (!region) {
      const parent = within && document.getElementById(within);
      if (!parent) continue;
      region = document.createElement("section");
      region.id = id;
      region.className = "live turn";
      parent.append(region);
    }
    mergeChildren(region, content);
  }
  if (home && document.activeElement !== focused) {
    // What was focused moved or went: stay with it, or near it.
    const next = focused.isConnected ? focused : (home.querySelector("h2") ?? home.querySelector("h1"));
    if (next) {
      // A heading takes the focus only with this, and a merge takes it away.
      if (next.matches("h1, h2")) next.tabIndex = -1;
      next.focus({ preventScroll: true });
    }
  }
  const title = document.querySelector("[data-title]")?.dataset.title;
  if (title && document.title !== title) document.title = title;
  if (following) root.scrollTop = root.scrollHeight;
}

function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

// ------------------------------------------------------------------ staying

let stream = null;
let polling = null;
let retry = null;
let wait = 1000;

function show(state, words) {
  if (!link || link.dataset.state === state) return;
  link.dataset.state = state;
  link.textContent = words;
}

async function refresh() {
  let answer;
  try {
    answer = await fetch(location.href, { headers: { accept: "text/html" } });
  } catch {
    show("lost", "not connected");
    return;
  }
  if (answer.status === 401) {
    leave();
    show("lost", "the session ended: run stewards link");
    return;
  }
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const regions = [...fresh.querySelectorAll(REGIONS)];
  swap(regions.map((r) => ({ id: r.id, within: r.parentElement.id, content: r })));
  if (polling) show("polling", "looking every 3 s");
}

function connect() {
  clearTimeout(retry);
  retry = null;
  if (stream || document.hidden) return;
  stream = new EventSource(`/events?page=${encodeURIComponent(location.pathname)}`);
  stream.addEventListener("regions", (event) => {
    wait = 1000;
    stopPolling();
    show("live", "live");
    swap(JSON.parse(event.data).map((r) => ({ ...r, content: parsed(r.html) })));
  });
  stream.addEventListener("gone", () => location.reload());
  stream.onerror = () => {
    stream?.close();
    stream = null;
    if (document.hidden) return;
    if (!polling) {
      polling = setInterval(refresh, POLL);
      refresh();
    }
    retry = setTimeout(connect, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  };
}

function stopPolling() {
  clearInterval(polling);
  polling = null;
}

function leave() {
  stream?.close();
  stream = null;
  clearTimeout(retry);
  retry = null;
  stopPolling();
}

// A hidden tab holds no connection: a browser has only six for this host. The
// stream begins with every region, so coming back is also the refresh.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    leave();
  } else {
    wait = 1000;
    connect();
  }
});
addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => {
  if (event.persisted) connect();
});

// ----------------------------------------------------------------- pressing

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form.press");
  if (!form) return;
  event.preventDefault();
  if (form.hasAttribute("data-keep")) return;
  const item = form.closest(".need") ?? form;
  const button = event.submitter ?? form.querySelector("button");
  const slot = item.querySelector(".refusal");
  slot.removeAttribute("data-keep");
  slot.hidden = true;
  form.setAttribute("data-keep", "");
  button.setAttribute("aria-disabled", "true");
  button.dataset.word = button.textContent;
  button.textContent = "Pressed…";
  const sent = new URLSearchParams(new FormData(form, button));
  let says;
  let refusal = null;
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      headers: { accept: "application/json" },
      body: sent,
    });
    const body = await answer.json();
    refusal = body.refusal ?? null;
    says = refusal ? `Refused: ${refusal.says}. ${refusal.hint}` : body.says.join(" ");
  } catch {
    says = "Refused: the daemon did not answer. Look again before you press again.";
    refusal = { says: "the daemon did not answer", hint: "look again before you press again" };
  }
  form.removeAttribute("data-keep");
  button.removeAttribute("aria-disabled");
  button.textContent = button.dataset.word;
  if (told) told.textContent = says;
  // What was sent is not typed twice.
  const text = form.querySelector("textarea");
  if (text && !refusal && text.value === sent.get("text")) text.value = "";
  if (refusal && slot.isConnected) {
    slot.querySelector(".says").textContent = refusal.says;
    slot.querySelector(".hint").textContent = refusal.hint;
    slot.setAttribute("data-keep", "");
    slot.hidden = false;
  }
  if (!stream) refresh();
});

if (document.querySelector(REGIONS)) connect();

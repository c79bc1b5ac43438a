// The page in a real browser, on the real demo: live, by keyboard, and closed
// to everybody else. Run with: node --test

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const BINARY = process.env.STEWARDS_BIN ?? join(HERE, "../target/debug/stewards");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const SHOTS = process.env.SHOTS ?? join(HERE, "shots");
const PATIENCE = 60_000;
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

let demo;
let dir;
let seen = "";
let told = false;
let browser;
let context;
let page;
let origin;
const complaints = [];

// The demo prints a one-time link when it is up.
function start() {
  dir = mkdtempSync(join(tmpdir(), "stewards-page-"));
  demo = spawn(BINARY, ["demo", "--dir", join(dir, "demo")], { stdio: ["ignore", "pipe", "pipe"] });
  return new Promise((found, failed) => {
    const late = setTimeout(() => failed(new Error(`no link was printed:\n${seen}`)), PATIENCE);
    const read = (piece) => {
      seen += piece;
      const link = seen.match(/http:\/\/127\.0\.0\.1:\d+\/enter\?code=[\w-]+(?=\s)/);
      if (!link) return;
      clearTimeout(late);
      found(link[0]);
    };
    demo.stdout.on("data", read);
    demo.stderr.on("data", (piece) => { seen += piece; });
    demo.on("error", failed);
    demo.on("exit", (code, signal) => {
      clearTimeout(late);
      // Seen in the output of a failing run: everything after it fails too.
      if (!told) console.error(`the demo ended by itself with ${signal ?? code}:\n${seen}`);
      failed(new Error(`the demo ended with ${signal ?? code}`));
    });
  });
}

// Without the browser's help, so that any header can be sent.
function ask(path, { method = "GET", headers = {}, body } = {}) {
  const { hostname, port } = new URL(origin);
  return new Promise((answered, failed) => {
    const request = http.request({ hostname, port, path, method, headers, agent: false }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (piece) => { text += piece; });
      answer.on("end", () => answered({ status: answer.statusCode, headers: answer.headers, text }));
    });
    request.on("error", failed);
    request.end(body);
  });
}

async function cookies() {
  return (await context.cookies(origin)).map((c) => `${c.name}=${c.value}`).join("; ");
}

// Marks the document, so that a reload would show.
async function unloaded() {
  await page.evaluate(() => { window.sameDocument = true; });
  return () => page.evaluate(() => window.sameDocument === true);
}

// Chromium itself now and then dies at its start on a busy machine, before it
// has seen any page of ours: that is tried again, and nothing else is.
async function launched() {
  for (let tries = 1; ; tries += 1) {
    try {
      return await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    } catch (error) {
      if (tries === 5) throw error;
      console.log(`the browser did not start (${tries}), once more`);
    }
  }
}

async function until(what, so) {
  const began = Date.now();
  while (!(await so())) {
    assert.ok(Date.now() - began < PATIENCE, what);
    await new Promise((next) => setTimeout(next, 50));
  }
}

before(async () => {
  assert.ok(existsSync(BINARY), `there is no binary at ${BINARY}: set STEWARDS_BIN`);
  mkdirSync(SHOTS, { recursive: true });
  const link = await start();
  origin = new URL(link).origin;
  browser = await launched();
  context = await browser.newContext();
  page = await context.newPage();
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(link);
});

after(async () => {
  await browser?.close();
  told = true;
  if (demo && demo.exitCode === null && demo.signalCode === null) demo.kill("SIGKILL");
  if (dir) rmSync(dir, { recursive: true, force: true });
});

test("nobody else is let in", async () => {
  assert.equal((await ask("/")).status, 401);
  assert.equal((await ask("/events?page=/")).status, 401);
  assert.equal((await ask("/", { headers: { host: "evil.example" } })).status, 421);
});

test("the board asks for the merge by itself, and says so in words", async () => {
  const same = await unloaded();
  const button = page.getByRole("button", { name: /^Merge/ });
  await button.waitFor({ timeout: PATIENCE });
  assert.ok(await same(), "the page was not loaded again");
  await page.locator("#flight").getByRole("img", { name: "needs you" }).first().waitFor();
  await page.locator("#link[data-state=live]").waitFor();
  await page.screenshot({ path: join(SHOTS, "board.png"), fullPage: true });
});

test("a press from elsewhere is refused", async () => {
  const cookie = await cookies();
  const type = "application/x-www-form-urlencoded";
  const press = (headers, body) =>
    ask("/press", { method: "POST", headers: { "content-type": type, cookie, ...headers }, body });
  assert.equal((await press({ origin }, "need=need_1")).status, 403, "without the form's own field");
  const csrf = await page.locator("input[name=csrf]").first().getAttribute("value");
  const foreign = await press({ origin: "http://evil.example" }, `need=need_1&csrf=${csrf}`);
  assert.equal(foreign.status, 403, "from another origin");
  assert.equal((await press({}, `need=need_1&csrf=${csrf}`)).status, 403, "from no origin");
  const alone = await ask("/press", { method: "POST", headers: { "content-type": type, origin }, body: `need=need_1&csrf=${csrf}` });
  assert.equal(alone.status, 401, "without a session");
  const wrong = await press({ origin }, `need=need_0&csrf=${csrf}&page=/`);
  assert.equal(wrong.status, 409, "for an item that is not there");
  assert.match(wrong.text, /Refused: no item is called need_0/);
});

test("the board reads without a script", async () => {
  const plain = await browser.newContext({ javaScriptEnabled: false, storageState: await context.storageState() });
  const still = await plain.newPage();
  await still.goto(`${origin}/`);
  assert.equal(await still.getByRole("button", { name: /^Merge/ }).count(), 1);
  await plain.close();
});

test("an effort and its threads tell what was done", async () => {
  const second = await context.newPage();
  await second.goto(`${origin}/`);
  await second.locator("#flight .effort .name a").first().click();
  await second.locator(".story li").first().waitFor();
  await second.screenshot({ path: join(SHOTS, "effort.png"), fullPage: true });
  await second.locator("#threads a", { hasText: /^worker/ }).first().click();
  const said = second.locator(".turn .said").first();
  await said.waitFor({ timeout: PATIENCE });
  assert.ok((await said.innerText()).trim().length > 0);
  await second.screenshot({ path: join(SHOTS, "thread.png"), fullPage: true });
  await second.close();
});

test("a message is written on a thread's page, and what is typed stays while the page changes", async () => {
  const second = await context.newPage();
  await second.goto(`${origin}/`);
  await second.getByRole("link", { name: "project steward" }).first().click();
  const box = second.getByRole("textbox", { name: /^Message to thr_/ });
  await box.fill("Is there anything that you need?");
  await second.getByRole("button", { name: "Send", exact: true }).click();
  await second.locator(".turn .message").first().waitFor({ timeout: PATIENCE });
  await until("the box is empty again", async () => (await box.inputValue()) === "");
  await box.fill("half a sente");
  await second.locator(".turn .said").first().waitFor({ timeout: PATIENCE });
  assert.equal(await box.inputValue(), "half a sente");
  await second.screenshot({ path: join(SHOTS, "composer.png"), fullPage: true });
  await second.close();
});

test("the bus page tells what was sent, of which kind and how far it came", async () => {
  const tab = await context.newPage();
  await tab.goto(`${origin}/`);
  await tab.getByRole("navigation").getByRole("link", { name: "Bus" }).click();
  await tab.waitForFunction(() => document.querySelector("#bus-numbers")?.textContent.includes("1 done"));
  assert.match(await tab.locator("#bus-recent").innerText(), /done[\s\S]*thr_/);
  assert.match(await tab.locator("#bus-claims").innerText(), /Held/);
  await tab.screenshot({ path: join(SHOTS, "bus.png"), fullPage: true });
  await tab.close();
});

test("every part fits in light and dark, wide and narrow", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1200, 390]) {
      const shown = await context.newPage();
      await shown.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await shown.setViewportSize({ width, height: 900 });
      await shown.goto(`${origin}/parts`);
      const fits = await shown.evaluate(() => document.scrollingElement.scrollWidth <= innerWidth);
      assert.ok(fits, `no sideways scrolling at ${width} in ${colorScheme}`);
      await shown.screenshot({ path: join(SHOTS, `parts-${colorScheme}-${width}.png`), fullPage: true });
      await shown.close();
    }
  }
});

test("a merge is pressed by keyboard and the effort ends without a reload", async () => {
  const same = await unloaded();
  const key = (await page.locator("#needs .need .where a").first().innerText()).trim();
  const button = page.getByRole("button", { name: /^Merge/ }).first();
  await button.focus();
  await page.keyboard.press("Enter");
  await page.locator("#ended .effort", { hasText: key }).waitFor({ timeout: PATIENCE });
  assert.equal(await page.locator("#flight .effort", { hasText: key }).count(), 0);
  assert.equal(await page.getByRole("button", { name: /^Merge/ }).count(), 0);
  const near = await page.evaluate(() => document.activeElement.closest("#needs") !== null);
  assert.ok(near, "the keyboard stays where the button was");
  assert.ok(await same(), "the page was not loaded again");
  await page.screenshot({ path: join(SHOTS, "ended.png"), fullPage: true });
});

test("nothing was complained of", () => {
  assert.deepEqual(complaints, []);
});

test("the demo ends when it is told to, open pages or not", async () => {
  assert.equal(demo.exitCode ?? demo.signalCode, null, "it is still up");
  told = true;
  const began = Date.now();
  const ended = new Promise((done) => demo.once("exit", done));
  demo.kill("SIGINT");
  const late = new Promise((_, failed) => setTimeout(() => failed(new Error("it is still up after 5 s")), 5_000).unref());
  await Promise.race([ended, late]);
  assert.ok(Date.now() - began < 5_000);
});

/**
 * The hub's page: puts the client, the stream, the table of topics and the curve together.
 *
 * Purpose: whoever opens the hub's address sees what flows through it, and can publish. Owner of the state: this module
 * (which prefix is subscribed, what was counted); each part owns its own.
 *
 * Invariants: text that came from a message is only ever set as `textContent`. A message is handled in constant time
 * and drawn at most once a frame; figures and tables are drawn twice a second, so the page keeps up with any rate that
 * the browser can parse, and shows how many messages it did not show.
 */

import { connect } from "./hub.js";
import { HubFigures, STATISTICS_TOPIC } from "./hub_figures.js";
import { SignIn } from "./sign_in.js";
import { Sparkline } from "./sparkline.js";
import { Stream } from "./stream.js";
import { Topics } from "./topics.js";

/** Figures and tables: fast enough to look live, slow enough to be read, milliseconds. */
const FIGURES_MS = 500;

/** What begins so is the hub's own; it is shown to those who ask for it, lest it fill the view of an idle hub. */
const RESERVED = "$hub/";

const element = (id) => document.getElementById(id);

const stream = new Stream(
  { viewport: element("stream"), spacer: element("spacer"), rows: element("rows"), empty: element("empty") },
  inspect,
);
const topics = new Topics(element("topics"), element("other-topics"), (topic) => show(topic));
const sparkline = new Sparkline(element("sparkline"));
const signIn = new SignIn({
  form: element("sign-in"), token: element("token"), problem: element("sign-in-problem"),
  who: element("user"), toggle: element("sign"), strangers: element("strangers"),
});
// Narrow: whoever may see a part of what flows here sees that part, and of the hub's own figures what he may.
const client = connect("/", { name: "console", token: signIn.token, narrow: true });
const hubFigures = new HubFigures();

let subscription = null;
let received = 0;
let dropped = 0;
let retryAt = 0;

// --- the connection -------------------------------------------------------------------------------------------------

client.on("open", (welcome) => {
  element("hub").textContent = `${welcome.name} · ${welcome.software}`;
  element("hub").title = `hub ${welcome.hub}`;
  document.title = `${welcome.name} · topichub`;
  say(null);
  signIn.welcomed(welcome);
  drawState();
});
client.on("close", (code, reason) => signIn.refused(code, reason));
client.on("reconnecting", (delayMs) => {
  retryAt = performance.now() + delayMs;
  hubFigures.forget();
  drawState();
});
client.on("dropped", (count) => {
  dropped += count;
});
client.on("error", (error) => say(error));

function drawState() {
  const { state } = client.statistics();
  const seconds = Math.max(0, (retryAt - performance.now()) / 1000);
  const text = { open: "connected", waiting: `reconnecting in ${seconds.toFixed(1)} s` }[state] ?? state;
  element("state").dataset.state = state;
  element("empty-connected").hidden = state !== "open";
  element("empty-disconnected").hidden = state === "open";
  if (element("state").textContent !== text) element("state").textContent = text;
}

/** Show an error under the toolbar, or take it away. */
function say(error) {
  element("problem").hidden = error === null;
  element("problem").textContent = error === null ? "" : `${error.code ? `${error.code}: ` : ""}${error.message}`;
}

// --- the prefix: in the box and in the address ----------------------------------------------------------------------

function prefixOfAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return location.hash.slice(1); // a lone "%": taken as it is
  }
}

function subscribe() {
  const prefix = prefixOfAddress();
  element("prefix").value = prefix;
  stream.clear();
  topics.clear();
  received = dropped = 0;
  subscription?.unsubscribe();
  subscription = null;
  try {
    const hidesHub = !prefix.startsWith("$");
    subscription = client.subscribe(prefix, ({ topic, value }) => {
      if (hidesHub && topic.startsWith(RESERVED)) return;
      received += 1;
      topics.count(topic);
      stream.add(topic, value);
    });
    say(null);
  } catch (error) {
    say(error);
  }
}

/** Subscribe to a prefix by putting it into the address, where it can be copied and gone back from. */
function show(prefix) {
  const hash = `#${encodeURI(prefix).replaceAll("#", "%23")}`;
  if (hash === (location.hash || "#")) subscribe();
  else location.hash = hash;
}

client.subscribe(STATISTICS_TOPIC, ({ topic, value }) => {
  if (topic === STATISTICS_TOPIC) hubFigures.feed(value);
});

addEventListener("hashchange", subscribe);
element("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  show(element("prefix").value);
});

// --- the stream -----------------------------------------------------------------------------------------------------

let paused = false;

function pause(wanted) {
  paused = wanted;
  stream.pause(paused);
}

element("hold").addEventListener("click", () => pause(!stream.held));
element("clear").addEventListener("click", () => {
  stream.clear();
  topics.clear();
  say(null);
});
element("inspector-close").addEventListener("click", () => {
  element("inspector").hidden = true;
});

function inspect({ topic, text }) {
  let pretty = text;
  try {
    pretty = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // a shortened value is no JSON: shown as it is
  }
  element("inspected-topic").textContent = topic;
  element("inspected-value").textContent = pretty;
  element("inspector").hidden = false;
}

// --- publishing -----------------------------------------------------------------------------------------------------

element("publish").addEventListener("submit", async (event) => {
  event.preventDefault();
  const startedAt = performance.now();
  try {
    await client.publish(element("topic").value, parsed(element("value").value), { confirm: true });
    published(`the hub has it, after ${(performance.now() - startedAt).toFixed(1)} ms`, false);
  } catch (error) {
    published(`${error.code ? `${error.code}: ` : ""}${error.message}`, true);
  }
});

/** JSON if it reads as such, else text, as on the command line; what begins as JSON and is none is likely a mistake. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!/^\s*[{["]/.test(text)) return text;
    throw new TypeError(`begins as JSON and is none: ${error.message}`, { cause: error });
  }
}

function published(text, bad) {
  element("published").textContent = text;
  element("published").classList.toggle("bad", bad);
}

// --- drawing --------------------------------------------------------------------------------------------------------

function drawFrame() {
  stream.draw();
  requestAnimationFrame(drawFrame);
}

function drawFigures() {
  const { clients, publishedPerS } = hubFigures;
  element("rate").textContent = publishedPerS === null ? "–" : Math.round(publishedPerS).toLocaleString();
  element("clients").textContent = clients === null ? "–" : clients.toLocaleString();
  element("received").textContent = received.toLocaleString();
  element("topic-count").textContent = topics.size.toLocaleString();
  element("dropped").textContent = dropped.toLocaleString();
  element("dropped-figure").classList.toggle("alarm", dropped > 0);
  element("skipped").hidden = stream.skipped === 0;
  element("skipped").textContent = `${stream.skipped.toLocaleString()} skipped`;
  element("hold").textContent = stream.held ? "Resume" : "Pause";
  element("hold").setAttribute("aria-pressed", String(stream.held));
  sparkline.add(publishedPerS ?? 0);
  topics.draw();
  drawState();
}

subscribe();
drawFigures();
drawFrame();
setInterval(drawFigures, FIGURES_MS);

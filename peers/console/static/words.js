/**
 * All words of the page, by language, and how numbers are written in it.
 *
 * A further language is a further object of the same shape in `LANGUAGES`; the first of the reader's languages that is
 * there is taken, else English. What is said with a number is a function of it, since languages differ in that. What
 * comes from the hub (names, reasons, errors) stands as the hub says it.
 *
 * Owner of the state: nobody. Not here: how bytes and rates are written (`parts/figures.js`).
 */

const plural = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

const ENGLISH = {
  shell: {
    skip: "Skip to the view",
    entries: "Views",
    states: { connecting: "connecting", open: "connected", closed: "not connected" },
    waiting: (seconds) => `reconnecting in ${seconds.toFixed(1)} s`,
    hub: (id) => `hub ${id}`,
    user: "Who you are to this hub",
    strangers: (role, too) => `Whoever reaches this hub is let in, with the role ${role}${too ? ", and so are you" : ""}.`,
    themes: { auto: "As the system", light: "Light", dark: "Dark" },
    theme: (name) => `Colours: ${name}. Click for the next`,
    waits: "Waiting for the hub …",
    nothing: (user) => `There is nothing that ${user || "you"} may see at this hub.`,
    barred: (title, user) => `${title} is nothing that ${user || "you"} may see at this hub.`,
    failed: (text) => `This view has failed by a bug, please report it: ${text}`,
  },
  signIn: {
    title: "Sign in",
    out: "Sign out",
    token: "Token",
    hint: ["The hub has printed the admin's at its first start; ", "hub token new", " makes one for somebody else."],
  },
  overview: {
    title: "Overview",
    state: "How the hub does",
    asking: "Asking the hub …",
    figures: "Figures",
    history: "What was before",
    in: "messages/s in",
    out: "messages/s out",
    connections: "connections",
    subscribers: "subscribers",
    slow: "slow",
    lost: "dropped in a minute",
    hints: {
      in: "What clients, other hubs and Zeeks publish to this hub",
      out: "What this hub writes to them",
      connections: "Clients, links to other hubs, and Zeeks, this page among them",
      subscribers: "Connections that subscribe to a prefix",
      slow: "Subscribers that had messages waiting at two looks in a row, or have lost some in the last minute",
      lost: "Messages that did not reach somebody who wanted them, within the last minute",
    },
    losers: "Who lost messages in the last minute",
    spans: "How far back",
    spanNames: { "1m": "1 min", "10m": "10 min", "1h": "1 h", "1d": "24 h" },
    charts: {
      messages: "Messages",
      bytes: "Bytes",
      dropped: "Dropped messages",
      queued: "Queued for slow ones",
      lag: "Event loop, late by",
      cpu: "Processor",
      memory: "Memory",
      connections: "Connections",
    },
    lines: {
      in_messages: "in",
      out_messages: "out",
      in_bytes: "in",
      out_bytes: "out",
      dropped_messages: "dropped",
      queued_bytes: "queued",
      lag_s: "late",
      cpu: "processors",
      memory_bytes: "resident",
      connections: "open",
    },
  },
  messages: {
    title: "Messages",
    received: "received here",
    receivedHint: "Messages under the prefix that came to this page",
    topics: "topics",
    missed: "missed by this page",
    missedHint: "Meant for this page, and dropped because it took them too slowly; other clients have lost nothing by that",
    prefix: "Prefix",
    prefixHint: "everything but $hub/",
    apply: "Apply",
    skipped: (count) => `${count.toLocaleString("en")} skipped`,
    skippedHint: "They came faster than this page shows, or while it was held. They are counted, not shown.",
    pause: "Pause",
    resume: "Resume",
    clear: "Clear",
    close: "Close",
    time: "Time",
    topic: "Topic",
    value: "Value",
    stream: "Live messages, newest first",
    none: ["No messages yet. Publish one here, or from a shell: ", "hub pub /demo/hello 1"],
    disconnected: "Not connected to the hub: nothing can come, nor be published, until it is there again.",
    characters: (count) => `(${count} characters)`,
    busiest: "Busiest topics",
    count: "Count",
    perSecond: "per s",
    others: (messages, topics) => `and ${plural(messages, "message", "messages")} of ${plural(topics, "other topic", "other topics")}`,
    publish: "Publish",
    valueHint: "Value: JSON, or text",
    published: (milliseconds) => `the hub has it, after ${milliseconds.toFixed(1)} ms`,
    noJson: (reason) => `begins as JSON and is none: ${reason}`,
  },
};

const LANGUAGES = { en: ENGLISH };

/** The language of the page, as the `lang` of HTML has it. */
export const language =
  (globalThis.navigator?.languages ?? []).map((one) => one.split("-")[0]).find((one) => Object.hasOwn(LANGUAGES, one)) ?? "en";

export const words = LANGUAGES[language];

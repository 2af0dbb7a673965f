/**
 * The hub's page: connection, frame and views. Folders: `shell` (connection, address, frame), `views`, `parts` (of views),
 * `styles`, `vendor` (uPlot).
 *
 * Text that came from elsewhere is only ever set as text. All that is shown comes over the hub's own WebSocket protocol.
 */

import { every } from "./parts/timing.js";
import { Frame, listenToKeys, restoreTheme } from "./shell/frame.js";
import { Session } from "./shell/session.js";
import { SignIn } from "./shell/session.js";
import { Views } from "./shell/views.js";
import { access } from "./views/access.js";
import { connections } from "./views/connections.js";
import { journal } from "./views/journal.js";
import { mesh } from "./views/mesh.js";
import { messages } from "./views/messages.js";
import { overview } from "./views/overview.js";
import { settings } from "./views/settings.js";
import { topics } from "./views/topics.js";
import { language } from "./words.js";

/** Fast enough to look live, slow enough to be read, milliseconds. */
const FRAME_MS = 500;

/** Entries, in this order; the first that one may see is what one begins with. */
const VIEWS = [overview, connections, topics, messages, journal, mesh, access, settings];

const wall = new URLSearchParams(location.search).has("wall");
document.documentElement.lang = language;
restoreTheme();
const signIn = new SignIn(); // before all others: it takes a token out of the address
const session = new Session(signIn.token);
const frame = new Frame(session, signIn, VIEWS, wall);
new Views(VIEWS, session, frame, wall);
listenToKeys(frame.entries);
session.client.on("open", (welcome) => {
  signIn.welcomed(welcome);
  frame.draw();
});
session.client.on("reconnecting", () => frame.draw());
session.client.on("close", (code, reason) => {
  signIn.refused(code, reason);
  frame.draw();
});
every(FRAME_MS, () => frame.draw(), new AbortController().signal);

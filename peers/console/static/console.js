/**
 * The hub's page: puts connection, frame and views together.
 *
 * Purpose: whoever opens the hub's address sees how the hub does, who is connected, and what flows. Folders: `shell`
 * (connection, address, frame), `views` (what is opened), `parts` (what views are made of), `styles`, `vendor` (uPlot).
 *
 * Invariants: text that came from elsewhere is only ever set as text. All that is shown comes over the hub's own
 * WebSocket protocol, so that programs have it, too. What one may not see is not offered, and refused by the hub all the
 * same.
 */

import { every } from "./parts/timing.js";
import { Frame } from "./shell/frame.js";
import { listenToKeys } from "./shell/keys.js";
import { Session } from "./shell/session.js";
import { SignIn } from "./shell/sign_in.js";
import { restoreTheme } from "./shell/theme.js";
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

// The conversation: questions, streamed answers, and the box to ask in.

import { announce, button, byId, figures, h, plain } from "./dom.js";
import { events, get } from "./api.js";
import { Turn } from "./answer.js";
import { closePanel } from "./panel.js";
import { refreshSessions, sessionBar } from "./sessions.js";

const LONGEST = 20_000; // characters of a question; the server holds its own limit
const LOOK_AGAIN = 2000; // milliseconds

let desk = null; // what is on the screen: {element, bar, thread, field, send, stop}
let session = null;
let running = null;

/** Shows a session, or an empty one for "". Whoever looks at a search and comes back finds it as it was. */
export async function showChat(id) {
  if (id && id === session?.id && desk) {
    if (!desk.element.isConnected) byId("main").replaceChildren(desk.element);
    title();
    return;
  }
  running?.abort();
  closePanel();
  session = null;
  const mine = makeDesk();
  desk = mine;
  byId("main").replaceChildren(mine.element);
  title();
  if (id) await load(id, mine);
  else await welcome(mine);
  if (mine === desk && !byId("main").contains(document.activeElement)) mine.field.focus({ preventScroll: true });
}

function makeDesk() {
  const field = h("textarea", { id: "question", name: "question", rows: 1, maxlength: LONGEST, placeholder: "Ask your documents", "aria-label": "Question", enterkeyhint: "send", autocomplete: "off" });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  const bar = h("div", { id: "session-bar" });
  const thread = h("div", { class: "thread", role: "log", "aria-live": "off", "aria-label": "Conversation" });
  const send = h("button", { type: "submit", class: "first" }, "Ask");
  const stop = button("Stop", () => running?.abort(), { id: "stop", hidden: true });
  const form = h("form", { class: "composer", on: { submit: (event) => {
    event.preventDefault();
    submit();
  } } }, field, send, stop);
  return { element: h("div", { class: "chat" }, bar, thread, form), bar, thread, field, send, stop };
}

async function load(id, on) {
  try {
    const found = await get(`session/${encodeURIComponent(id)}`);
    if (on !== desk) return;
    adopt(found);
    on.thread.replaceChildren();
    for (const [question, answer] of pairs(found.history)) {
      const turn = new Turn(question);
      on.thread.append(turn.element);
      if (answer) turn.finish(answer);
      else turn.fail("There is no answer to this question.");
    }
    announce(`${found.title}, ${figures(found.history.length, "message")}.`);
    on.thread.lastElementChild?.scrollIntoView({ block: "start", behavior: "instant" });
    // another tab is being answered: look again until it is done
    if (found.history.at(-1)?.status === "running") setTimeout(() => on === desk && !running && load(id, on), LOOK_AGAIN);
  } catch (error) {
    if (on === desk) on.thread.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message), " ", h("a", { href: "#/" }, "Start a new session")));
  }
}

/** Questions with their answers; an answer that never came is null. */
function pairs(history) {
  const found = [];
  for (const message of history) {
    if (message.role === "user") found.push([message.content, null]);
    else if (found.length) found.at(-1)[1] = message;
  }
  return found;
}

async function welcome(on) {
  const status = await get("status").catch((error) => ({ trouble: error.message }));
  if (on !== desk || on.thread.childElementCount) return;
  on.thread.append(h("div", { class: "welcome" }, ...(status.trouble ? failure(status.trouble) : status.documents ? greeting(status) : nothingYet())));
}

const failure = (line) => [h("h1", {}, "The knowledge base is not there"), h("p", { class: "trouble", role: "alert" }, plain(line))];
const nothingYet = () => [h("h1", {}, "Nothing is indexed yet"), h("p", {}, "Fill the knowledge base with ", h("code", {}, "ragkit index FOLDER"), ", then reload this page.")];
const greeting = (status) => [
  h("h1", {}, `Ask ${figures(status.documents, "document")}`),
  h("p", {}, "Every statement of an answer carries a number. It opens the lines of the document that the statement stands on. What the documents do not hold is said plainly."),
  h("p", {}, `${figures(status.chunks, "passage")} ${status.stale ? "are indexed; some files have changed since." : "are indexed, and no file has changed since."} `, h("a", { href: "#/status" }, "See what is in it")),
  h("p", { class: "keys" }, h("kbd", {}, "Enter"), " asks, ", h("kbd", {}, "Shift"), " ", h("kbd", {}, "Enter"), " begins a line, ", h("kbd", {}, "/"), " comes back here, ", h("kbd", {}, "Esc"), " closes the panel."),
];

function adopt(found) {
  session = { ...session, ...found };
  const over = Boolean(session.ended);
  desk.bar.replaceChildren(sessionBar(session, changed));
  desk.field.disabled = desk.send.disabled = over;
  desk.field.placeholder = over ? "This session has ended. Start a new one to ask." : "Ask your documents";
  title();
}

function title() {
  if (desk.element.isConnected) document.title = plain(session?.title ? `${session.title} - ragkit` : "ragkit");
}

function changed(now, what) {
  adopt(now);
  announce(what === "rename" ? "Renamed." : "The session has ended.");
  byId(what === "rename" ? "session-menu" : "new").focus();
  refreshSessions(now.id);
}

function submit() {
  const question = desk.field.value.trim();
  if (!question || running || session?.ended) return;
  desk.field.value = "";
  ask(question);
}

async function ask(question) {
  const on = desk;
  on.thread.querySelector(".welcome")?.remove();
  const turn = new Turn(question);
  on.thread.append(turn.element);
  turn.element.scrollIntoView({ block: "start" });
  const mine = new AbortController();
  running = mine;
  busy(on, true);
  try {
    await follow(question, turn, on, mine.signal);
  } catch (error) {
    if (mine.signal.aborted) turn.stopped();
    else turn.fail(error.message, () => {
      turn.element.remove();
      if (!running) ask(question);
    });
  } finally {
    if (running === mine) running = null;
    busy(on, false);
    refreshSessions();
  }
}

async function follow(question, turn, on, signal) {
  const body = { message: question, stream: true };
  if (session) body.session_id = session.id;
  let ended = false;
  for await (const { event, data } of events("chat", body, signal)) {
    if (event === "start" && on === desk) begun(data.session_id, question);
    else if (event === "tool") turn.call(data);
    else if (event === "tool_result") turn.result(data);
    else if (event === "text") turn.write(data.delta);
    else if (event === "discard") turn.discard();
    else if (event === "error") throw new Error(data.error.message);
    else if (event === "done") {
      ended = true;
      turn.finish(data.message);
      if (on === desk && data.session?.title !== session?.title) adopt(data.session);
    }
  }
  if (!ended) throw new Error("The connection ended before the answer was finished. Try again.");
}

/** The server has made a session: it gets its own address, so that a reload finds it again. */
function begun(id, question) {
  if (!id || session?.id === id) return;
  adopt({ id, title: question.slice(0, 80), ended: null });
  if (desk.element.isConnected) history.replaceState(null, "", `#/s/${encodeURIComponent(id)}`);
  refreshSessions(desk.element.isConnected ? id : undefined);
}

function busy(on, is) {
  on.send.hidden = is;
  on.stop.hidden = !is;
  if (is) announce("Reading the documents.");
}

// The chat view: questions, streamed answers and the input field.

import { announce, button, byId, formatCount, h, plain } from "./dom.js";
import { get, streamEvents } from "./api.js";
import { ChatTurn } from "./answer.js";
import { closePanel } from "./panel.js";
import { refreshSessions, sessionBar } from "./sessions.js";

const MAX_QUESTION_CHARS = 20_000; // characters; the server has its own limit
const POLL_MS = 2000; // milliseconds

let view = null; // the current view: {element, bar, thread, field, send, stop}
let session = null;
let activeRequest = null;

/** Shows a session, or a new one for "". Returning from another view restores the session as it was. */
export async function showChat(id) {
  if (id && id === session?.id && view) {
    if (!view.element.isConnected) byId("main").replaceChildren(view.element);
    updateTitle();
    return;
  }
  activeRequest?.abort();
  closePanel();
  session = null;
  const target = createView();
  view = target;
  byId("main").replaceChildren(target.element);
  updateTitle();
  if (id) await loadSession(id, target);
  else await showWelcome(target);
  if (target === view && !byId("main").contains(document.activeElement)) target.field.focus({ preventScroll: true });
}

function createView() {
  const field = h("textarea", { id: "question", name: "question", rows: 1, maxlength: MAX_QUESTION_CHARS, placeholder: "Ask your documents", "aria-label": "Question", enterkeyhint: "send", autocomplete: "off" });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  const bar = h("div", { id: "session-bar" });
  const thread = h("div", { class: "thread", role: "log", "aria-live": "off", "aria-label": "Conversation" });
  const send = h("button", { type: "submit", class: "first" }, "Ask");
  const stop = button("Stop", () => activeRequest?.abort(), { id: "stop", hidden: true });
  const form = h("form", { class: "composer", on: { submit: (event) => {
    event.preventDefault();
    submit();
  } } }, field, send, stop);
  return { element: h("div", { class: "chat" }, bar, thread, form), bar, thread, field, send, stop };
}

async function loadSession(id, target) {
  try {
    const found = await get(`session/${encodeURIComponent(id)}`);
    if (target !== view) return;
    setSession(found);
    target.thread.replaceChildren();
    for (const [question, answer] of pairMessages(found.history)) {
      const turn = new ChatTurn(question.content, question.created);
      target.thread.append(turn.element);
      if (answer) turn.finish(answer);
      else turn.fail("This question has no answer.");
    }
    announce(`${found.title}, ${formatCount(found.history.length, "message")}.`);
    target.thread.lastElementChild?.scrollIntoView({ block: "start", behavior: "instant" });
    // an answer is running in another tab: poll until it is complete
    if (found.history.at(-1)?.status === "running") setTimeout(() => target === view && !activeRequest && loadSession(id, target), POLL_MS);
  } catch (error) {
    if (target === view) target.thread.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message), " ", h("a", { href: "#/" }, "Start a new session")));
  }
}

/** Pairs of question and answer; a missing answer is null. */
function pairMessages(history) {
  const result = [];
  for (const message of history) {
    if (message.role === "user") result.push([message, null]);
    else if (result.length) result.at(-1)[1] = message;
  }
  return result;
}

async function showWelcome(target) {
  const status = await get("status").catch((error) => ({ error: error.message }));
  if (target !== view || target.thread.childElementCount) return;
  target.thread.append(h("div", { class: "welcome" }, ...(status.error ? errorNotice(status.error) : status.documents ? welcomeNotice(status) : emptyNotice())));
}

const errorNotice = (message) => [h("h1", {}, "The knowledge base is not available"), h("p", { class: "trouble", role: "alert" }, plain(message))];
const emptyNotice = () => [h("h1", {}, "No documents are indexed yet"), h("p", {}, "Index documents with ", h("code", {}, "ragkit index FOLDER"), ", then reload this page.")];
const welcomeNotice = (status) => [
  h("h1", {}, `Ask ${formatCount(status.documents, "document")}`),
  h("p", {}, "Answers cite their sources: click a number to open the cited lines of the document. If the documents do not contain an answer, ragkit says so."),
  h("p", {}, `${formatCount(status.chunks, "passage")} ${status.stale ? "are indexed; some files have changed since." : "are indexed; no file has changed since."} `, h("a", { href: "#/status" }, "Show the knowledge base")),
  h("p", { class: "keys" }, h("kbd", {}, "Enter"), " to ask, ", h("kbd", {}, "Shift"), " ", h("kbd", {}, "Enter"), " for a new line, ", h("kbd", {}, "/"), " to focus the input, ", h("kbd", {}, "Esc"), " to close the panel."),
];

function setSession(found) {
  session = { ...session, ...found };
  const ended = Boolean(session.ended);
  view.bar.replaceChildren(sessionBar(session, onSessionChange));
  view.field.disabled = view.send.disabled = ended;
  view.field.placeholder = ended ? "This session has ended. Start a new one to ask." : "Ask your documents";
  updateTitle();
}

function updateTitle() {
  if (view.element.isConnected) document.title = plain(session?.title ? `${session.title} - ragkit` : "ragkit");
}

function onSessionChange(changed, action) {
  setSession(changed);
  announce(action === "rename" ? "Renamed." : "The session has ended.");
  byId(action === "rename" ? "session-menu" : "new").focus();
  refreshSessions(changed.id);
}

function submit() {
  const question = view.field.value.trim();
  if (!question || activeRequest || session?.ended) return;
  view.field.value = "";
  ask(question);
}

async function ask(question) {
  const target = view;
  target.thread.querySelector(".welcome")?.remove();
  const turn = new ChatTurn(question, Date.now() / 1000);
  target.thread.append(turn.element);
  turn.element.scrollIntoView({ block: "start" });
  const request = new AbortController();
  activeRequest = request;
  setBusy(target, true);
  try {
    await streamAnswer(question, turn, target, request.signal);
  } catch (error) {
    if (request.signal.aborted) turn.stopped();
    else turn.fail(error.message, () => {
      turn.element.remove();
      if (!activeRequest) ask(question);
    });
  } finally {
    if (activeRequest === request) activeRequest = null;
    setBusy(target, false);
    refreshSessions();
  }
}

async function streamAnswer(question, turn, target, signal) {
  const body = { message: question, stream: true };
  if (session) body.session_id = session.id;
  let ended = false;
  for await (const { event, data } of streamEvents("chat", body, signal)) {
    if (event === "start" && target === view) onAnswerStart(data.session_id, question);
    else if (event === "tool") turn.call(data);
    else if (event === "tool_result") turn.result(data);
    else if (event === "text") turn.write(data.delta);
    else if (event === "discard") turn.discard();
    else if (event === "error") throw new Error(data.error.message);
    else if (event === "done") {
      ended = true;
      turn.finish(data.message);
      if (target === view && data.session?.title !== session?.title) setSession(data.session);
    }
  }
  if (!ended) throw new Error("The connection closed before the answer was complete. Try again.");
}

/** Puts the id of a new session into the URL, so that a reload restores it. */
function onAnswerStart(id, question) {
  if (!id || session?.id === id) return;
  setSession({ id, title: question.slice(0, 80), ended: null });
  if (view.element.isConnected) history.replaceState(null, "", `#/s/${encodeURIComponent(id)}`);
  refreshSessions(view.element.isConnected ? id : undefined);
}

function setBusy(target, busy) {
  target.send.hidden = busy;
  target.stop.hidden = !busy;
  if (busy) announce("Searching the documents.");
}

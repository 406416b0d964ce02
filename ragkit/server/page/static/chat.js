// The chat view: questions, streamed answers and the input field.

import { announce, button, byId, formatCount, h, plain, setUploads } from "./dom.js";
import { get, streamEvents } from "./api.js";
import { ChatTurn } from "./answer.js";
import { intakeSection } from "./intake.js";
import { isActive, jobList, onJobChange, refreshJobs } from "./jobs.js";
import { closePanel } from "./panel.js";
import { chosenScope, forgetScopes, scopeControls } from "./scope.js";
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
  } } }, scopeControls(), field, send, stop);
  return { element: h("div", { class: "chat" }, bar, thread, form), bar, thread, form, field, send, stop };
}

async function loadSession(id, target) {
  try {
    const [found] = await Promise.all([get(`session/${encodeURIComponent(id)}`), loadSources()]);
    if (target !== view) return;
    setSession(found);
    target.thread.replaceChildren();
    let turn = null;
    for (const [question, answer] of pairMessages(found.history)) {
      turn = new ChatTurn(question.content, question.created, askAgain);
      target.thread.append(turn.element);
      if (answer) turn.finish(answer);
      else turn.fail("This question has no answer.");
    }
    if (canFollow(found.history.at(-1))) suggestNext(turn, target);
    announce(`${found.title}, ${formatCount(found.history.length, "message")}.`);
    target.thread.lastElementChild?.scrollIntoView({ block: "start", behavior: "instant" });
    // an answer is running in another tab: poll until it is complete
    if (found.history.at(-1)?.status === "running") setTimeout(() => target === view && !activeRequest && loadSession(id, target), POLL_MS);
  } catch (error) {
    if (target === view) target.thread.replaceChildren(h("p", { class: "trouble", role: "alert" }, error.status === 404 ? "This session was not found: it was deleted, or is too old." : plain(error.message), " ", h("a", { href: "#/" }, "Start a new session")));
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

/** What is indexed, and what may be added; null if that is not known. */
async function loadSources() {
  const sources = await get("sources").catch(() => null);
  setUploads(sources?.uploads.source);
  return sources;
}

async function showWelcome(target) {
  const sources = await loadSources();
  const status = sources?.exists === false ? {} : await get("status").catch((error) => ({ error: error.message }));
  if (target !== view || target.thread.childElementCount) return;
  const welcome = h("div", { class: "welcome" });
  target.thread.append(welcome);
  if (status.error) return welcome.append(...errorNotice(status.error));
  const jobs = jobList(sources?.uploads.source);
  const running = h("div", { class: "after" }, jobs.element);
  if (status.documents || !sources) showReady(welcome, status);
  else showStart(target, welcome, sources, jobs);
  const end = onJobChange(async (job) => {
    if (!welcome.isConnected) return end();
    jobs.render();
    if (isActive(job) && !jobs.element.isConnected) welcome.querySelector(".keys").after(running);
    if (isActive(job) || !jobs.element.isConnected) return;
    const { exists } = await get("sources").catch(() => ({}));
    const now = exists && (await get("status").catch(() => null));
    if (!now?.documents || !welcome.isConnected) return;
    const wasStart = welcome.classList.contains("start");
    const goesOn = welcome.contains(document.activeElement) || document.activeElement === document.body;
    target.form.hidden = false;
    running.append(jobs.element);
    showReady(welcome, now, job.failures.length > 0 && running);
    forgetScopes();
    if (wasStart && goesOn) target.field.focus();
  });
  refreshJobs().catch(() => null); // the notice above says what is wrong
}

/** The way to ask; `after` is what a job has left to show. */
function showReady(welcome, status, after = false) {
  welcome.classList.remove("start");
  welcome.replaceChildren(...welcomeNotice(status), ...(after ? [after] : []));
  suggest(welcome);
}

/** First questions from headings; what the documents answer to them is not known before they are asked. */
async function suggest(welcome) {
  const { questions } = await get("suggestions").catch(() => ({ questions: [] }));
  if (!questions.length || !welcome.isConnected) return;
  const items = questions.map((question) => h("li", {}, button(plain(question), () => !activeRequest && ask(question), { dir: "auto" })));
  welcome.querySelector(".suggestions")?.remove();
  welcome.append(h("section", { class: "suggestions", "aria-labelledby": "suggestions" }, h("h2", { id: "suggestions" }, "Headings of your documents, as questions"), h("ul", {}, items)));
}

/** Questions about other sections of the cited documents, below the last answer until the next question. */
async function suggestNext(turn, target) {
  const id = session?.id;
  const { questions } = await get(`session/${encodeURIComponent(id)}/suggestions`).catch(() => ({ questions: [] }));
  if (!questions.length || target !== view || id !== session?.id || activeRequest || session.ended || target.thread.lastElementChild !== turn.element) return;
  const items = questions.map((question) => h("li", {}, button(plain(question), () => !activeRequest && ask(question), { dir: "auto" })));
  turn.element.append(h("section", { class: "next", "aria-label": "Other sections of the cited documents" }, h("ul", {}, items)));
}

/** Shows a session by its read-only link. */
export async function showShared(id) {
  activeRequest?.abort();
  closePanel();
  [session, view] = [null, null];
  const thread = h("div", { class: "thread", role: "log", "aria-live": "off", "aria-label": "Conversation" });
  const bar = h("div", { class: "session-bar" }, h("h1", { class: "title", dir: "auto" }, "Shared session"), h("span", { class: "mark" }, "read only"), h("a", { class: "home", href: "#/" }, "Open ragkit"));
  byId("main").replaceChildren(h("div", { class: "chat" }, bar, thread));
  try {
    const found = await get(`shared/${encodeURIComponent(id)}`);
    bar.firstChild.textContent = plain(found.title || "Shared session");
    document.title = plain(`${found.title} - ragkit`);
    for (const [question, answer] of pairMessages(found.history)) {
      const turn = new ChatTurn(question.content, question.created);
      thread.append(turn.element);
      if (answer) turn.finish({ ...answer, id: null });
      else turn.fail("This question has no answer.");
    }
  } catch (error) {
    thread.replaceChildren(h("p", { class: "trouble", role: "alert" }, error.status === 404 ? "This link was revoked, or its session was deleted." : plain(error.message)));
  }
}

/** The way from no documents to the first question. */
function showStart(target, welcome, sources, jobs) {
  const head = h("div", {}, ...startNotice(sources.can_change));
  welcome.classList.add("start");
  target.form.hidden = true;
  welcome.append(head, jobs.element, intakeSection(sources));
}

const errorNotice = (message) => [h("h1", {}, "The knowledge base is not available"), h("p", { class: "trouble", role: "alert" }, plain(message))];
const startNotice = (canChange) => [
  h("h1", {}, "Add your documents"),
  h("p", {}, canChange ? "PDF, Word, Excel, PowerPoint, HTML, Markdown, mail, text and code are read, indexed on this server, and answered from with citations." : "No documents are indexed yet."),
];
const welcomeNotice = (status) => [
  h("h1", {}, `Ask ${formatCount(status.documents, "document")}`),
  h("p", {}, "Answers cite their sources: click a number to open the cited lines of the document. If the documents do not contain an answer, ragkit says so."),
  h("p", {}, `${formatCount(status.chunks, "passage")} ${status.chunks === 1 ? "is" : "are"} indexed; ${status.stale ? "some files have" : "no file has"} changed since. `, h("a", { href: "#/status" }, "Show and add documents")),
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

/** Asks a question in the place of an earlier answer, which is deleted with all messages after it. */
function askAgain(question, trace) {
  if (activeRequest || session?.ended) return;
  const turns = [...view.thread.querySelectorAll(".turn")];
  const first = turns.findIndex((turn) => turn.dataset.trace === trace);
  ask(question, trace, first < 0 ? [] : turns.slice(first));
}

async function ask(question, replace = null, replaced = []) {
  const target = view;
  for (const element of target.thread.querySelectorAll(".welcome, .next")) element.remove();
  const turn = new ChatTurn(question, Date.now() / 1000, askAgain);
  for (const element of replaced) element.remove();
  target.thread.append(turn.element);
  turn.element.scrollIntoView({ block: "start" });
  const request = new AbortController();
  activeRequest = request;
  setBusy(target, true);
  try {
    const message = await streamAnswer({ question, replace }, turn, target, request.signal);
    activeRequest = null;
    if (canFollow(message)) suggestNext(turn, target);
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

async function streamAnswer({ question, replace }, turn, target, signal) {
  const body = { message: question, stream: true, ...chosenScope() };
  if (replace) body.replace = replace;
  if (session) body.session_id = session.id;
  let message = null;
  for await (const { event, data } of streamEvents("chat", body, signal)) {
    if (event === "start" && target === view) onAnswerStart(data.session_id, question);
    else if (event === "tool") turn.call(data);
    else if (event === "tool_result") turn.result(data);
    else if (event === "text") turn.write(data.delta);
    else if (event === "discard") turn.discard();
    else if (event === "error") throw new Error(data.error.message);
    else if (event === "done") {
      message = data.message;
      turn.finish(message);
      if (target === view && data.session?.title !== session?.title) setSession(data.session);
    }
  }
  if (!message) throw new Error("The connection closed before the answer was complete. Try again.");
  return message;
}

const canFollow = (message) => message?.status === "done" && !message.abstained && message.citations?.length > 0;

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

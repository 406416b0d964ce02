// The chat view: questions, streamed answers and the input field.

import { announce, button, byId, h, plain, setUploads, shortName } from "./dom.js";
import { get, send, streamEvents } from "./api.js";
import { ChatTurn } from "./answer.js";
import { intakeSection } from "./intake.js";
import { isActive, jobList, onJobChange, refreshJobs } from "./jobs.js";
import { closePanel } from "./panel.js";
import { openPassage } from "./passage.js";
import { chosenScope, forgetScopes, scopeControls } from "./scope.js";
import { refreshSessions, sessionBar } from "./sessions.js";
import { language, t, tn } from "./words.js";

const MAX_QUESTION_CHARS = 20_000; // characters; the server has its own limit
const MAX_CARDS = 6; // documents on the first screen
const POLL_MS = 700; // milliseconds between two looks at an answer that another connection asked for

let view = null; // the current view: {element, bar, thread, form, field, submit, stop}
let session = null;
let activeRequest = null; // {controller, session, turn}

/** Shows a session, or a new one for "". Returning from another view restores the session as it was. */
export async function showChat(id) {
  if (id && id === session?.id && view) {
    if (!view.element.isConnected) byId("main").replaceChildren(view.element);
    updateTitle();
    return;
  }
  leave();
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

/** Stops listening to an answer; the server goes on with it. */
function leave() {
  activeRequest?.controller.abort();
  activeRequest = null;
}

/** Stops the answer on the server; what it has written is shown, and kept. */
async function stopAnswer() {
  const running = activeRequest;
  if (!running) return;
  if (!running.session) return running.controller.abort(); // not started: nothing to keep
  await send("POST", "session/stop", { session_id: running.session }).catch((error) => announce(error.message));
}

function createView() {
  const field = h("textarea", { id: "question", name: "question", rows: 1, maxlength: MAX_QUESTION_CHARS, placeholder: t("Ask your documents"), "aria-label": t("Question"), enterkeyhint: "send", autocomplete: "off" });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  const bar = h("div", { id: "session-bar" });
  const thread = h("div", { class: "thread", role: "log", "aria-live": "off", "aria-label": t("Conversation") });
  const ask = h("button", { type: "submit", class: "first" }, t("Ask"));
  const stop = button(t("Stop"), stopAnswer, { id: "stop", hidden: true });
  const form = h("form", { class: "composer", on: { submit: (event) => {
    event.preventDefault();
    submit();
  } } }, scopeControls(), field, ask, stop);
  return { element: h("div", { class: "chat" }, bar, thread, form), bar, thread, form, field, submit: ask, stop };
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
      if (answer?.status === "running") turn.goOn(answer.content);
      else if (answer) turn.finish(answer);
      else turn.fail(t("This question has no answer."));
    }
    if (canFollow(found.history.at(-1))) suggestNext(turn, target);
    announce(`${found.title}, ${tn("{n} message|{n} messages", found.history.length)}.`);
    target.thread.lastElementChild?.scrollIntoView({ block: "start", behavior: "instant" });
    if (found.history.at(-1)?.status === "running") followAnswer(id, turn, target);
  } catch (error) {
    if (target === view) target.thread.replaceChildren(h("p", { class: "trouble", role: "alert" }, error.status === 404 ? t("This session was not found: it was deleted, or is too old.") : plain(error.message), " ", h("a", { href: "#/" }, t("Start a new session"))));
  }
}

/** Shows an answer that another tab, or this one before a reload, has asked for. */
async function followAnswer(id, turn, target) {
  const running = { controller: new AbortController(), session: id };
  activeRequest = running;
  setBusy(target, true);
  while (activeRequest === running) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    const found = await get(`session/${encodeURIComponent(id)}`, running.controller.signal).catch(() => null);
    const message = found?.history.at(-1);
    if (activeRequest !== running || !message) continue;
    if (message.status === "running") turn.goOn(message.content);
    else {
      activeRequest = null;
      turn.finish(message);
      setBusy(target, false);
      if (canFollow(message)) suggestNext(turn, target);
    }
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
  showDocuments(welcome).then(() => suggest(welcome));
}

const fileName = (source) => shortName(source).split("/").pop();

/** The first documents as cards that open them. */
async function showDocuments(welcome) {
  const { documents } = await get(`documents?limit=${MAX_CARDS}`).catch(() => ({ documents: [] }));
  if (!documents.length || !welcome.isConnected) return;
  const cards = documents.map(({ id, source, title, chunks }) => h("li", {}, h("button", { type: "button", class: "card", on: { click: (event) => openPassage({ source, document_id: id }, event.currentTarget) } },
    h("bdi", { class: "file" }, plain(title || fileName(source))), h("span", { class: "where" }, title && title !== fileName(source) && plain(`${fileName(source)} \u00b7 `), tn("{n} passage|{n} passages", chunks)))));
  welcome.querySelector(".cards")?.remove();
  welcome.append(h("section", { class: "cards", "aria-label": t("Documents") }, h("ul", {}, cards)));
}

/** First questions: headings that are questions, and what a document is about. */
async function suggest(welcome) {
  const { questions } = await get(`suggestions?language=${language}`).catch(() => ({ questions: [] }));
  if (!questions.length || !welcome.isConnected) return;
  const items = questions.map((question) => h("li", {}, button(plain(question), () => !activeRequest && ask(question), { dir: "auto" })));
  welcome.querySelector(".suggestions")?.remove();
  welcome.append(h("section", { class: "suggestions", "aria-labelledby": "suggestions" }, h("h2", { id: "suggestions" }, t("What can be asked")), h("ul", {}, items)));
}

/** Questions about other sections of the cited documents, below the last answer until the next question. */
async function suggestNext(turn, target) {
  const id = session?.id;
  const { questions } = await get(`session/${encodeURIComponent(id)}/suggestions?language=${language}`).catch(() => ({ questions: [] }));
  if (!questions.length || target !== view || id !== session?.id || activeRequest || session.ended || target.thread.lastElementChild !== turn.element) return;
  const items = questions.map((question) => h("li", {}, button(plain(question), () => !activeRequest && ask(question), { dir: "auto" })));
  turn.element.append(h("section", { class: "next", "aria-label": t("Other sections of the cited documents") }, h("ul", {}, items)));
}

/** Shows a session by its read-only link. */
export async function showShared(id) {
  leave();
  closePanel();
  [session, view] = [null, null];
  const thread = h("div", { class: "thread", role: "log", "aria-live": "off", "aria-label": t("Conversation") });
  const bar = h("div", { class: "session-bar" }, h("h1", { class: "title", dir: "auto" }, t("Shared session")), h("span", { class: "mark" }, t("read only")), h("a", { class: "home", href: "#/" }, t("Open ragkit")));
  byId("main").replaceChildren(h("div", { class: "chat" }, bar, thread));
  try {
    const found = await get(`shared/${encodeURIComponent(id)}`);
    bar.firstChild.textContent = plain(found.title || t("Shared session"));
    document.title = plain(`${found.title} - ragkit`);
    for (const [question, answer] of pairMessages(found.history)) {
      const turn = new ChatTurn(question.content, question.created);
      thread.append(turn.element);
      if (answer) turn.finish({ ...answer, id: null });
      else turn.fail(t("This question has no answer."));
    }
  } catch (error) {
    thread.replaceChildren(h("p", { class: "trouble", role: "alert" }, error.status === 404 ? t("This link was revoked, or its session was deleted.") : plain(error.message)));
  }
}

/** The way from no documents to the first question. */
function showStart(target, welcome, sources, jobs) {
  const head = h("div", {}, ...startNotice(sources.can_change));
  welcome.classList.add("start");
  target.form.hidden = true;
  welcome.append(head, jobs.element, intakeSection(sources));
}

const errorNotice = (message) => [h("h1", {}, t("The knowledge base is not available")), h("p", { class: "trouble", role: "alert" }, plain(message))];
const startNotice = (canChange) => [
  h("h1", {}, t("Add your documents")),
  h("p", {}, canChange ? t("PDF, Word, Excel, PowerPoint, HTML, Markdown, mail, text and code are read, indexed on this server, and answered from with citations.") : t("No documents are indexed yet.")),
];
const welcomeNotice = (status) => [
  h("h1", {}, tn("Ask {n} document|Ask {n} documents", status.documents)),
  h("p", {}, t("Answers cite their sources: click a number to open the cited lines of the document. If the documents do not contain an answer, ragkit says so.")),
  h("p", {}, tn("{n} passage is indexed.|{n} passages are indexed.", status.chunks), " ", status.stale ? t("Some files have changed since.") : t("No file has changed since."), " ", h("a", { href: "#/status" }, t("Show and add documents"))),
  h("p", { class: "keys" }, h("kbd", {}, "Enter"), t(" to ask, "), h("kbd", {}, "Shift"), " ", h("kbd", {}, "Enter"), t(" for a new line, "), h("kbd", {}, "/"), t(" to focus the input, "), h("kbd", {}, "Esc"), t(" to close the panel.")),
];

function setSession(found) {
  session = { ...session, ...found };
  const ended = Boolean(session.ended);
  view.bar.replaceChildren(sessionBar(session, onSessionChange));
  view.field.disabled = view.submit.disabled = ended;
  view.field.placeholder = ended ? t("This session has ended. Start a new one to ask.") : t("Ask your documents");
  updateTitle();
}

function updateTitle() {
  if (view.element.isConnected) document.title = plain(session?.title ? `${session.title} - ragkit` : "ragkit");
}

function onSessionChange(changed, action) {
  setSession(changed);
  announce({ rename: t("Renamed."), notes: t("Saved."), end: t("The session has ended.") }[action]);
  byId(action === "end" ? "new" : "session-menu").focus();
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
  const running = { controller: new AbortController(), session: null };
  activeRequest = running;
  setBusy(target, true);
  try {
    const message = await streamAnswer({ question, replace }, turn, target, running);
    activeRequest = null;
    if (canFollow(message)) suggestNext(turn, target);
  } catch (error) {
    if (running.controller.signal.aborted) {
      turn.element.remove(); // the server goes on, or never began
      target.field.value ||= running.session ? "" : question;
    }
    else turn.fail(error.message, () => {
      turn.element.remove();
      if (!activeRequest) ask(question);
    });
  } finally {
    if (activeRequest === running) activeRequest = null;
    setBusy(target, false);
    refreshSessions();
  }
}

async function streamAnswer({ question, replace }, turn, target, running) {
  const body = { message: question, stream: true, background: true, ...chosenScope() };
  if (replace) body.replace = replace;
  if (session) body.session_id = session.id;
  let message = null;
  for await (const { event, data } of streamEvents("chat", body, running.controller.signal)) {
    if (event === "start") {
      running.session = data.session_id;
      if (target === view) onAnswerStart(data.session_id, question);
    }
    else if (event === "tool") turn.call(data);
    else if (event === "tool_result") turn.result(data);
    else if (event === "text") turn.write(data.delta);
    else if (event === "discard") turn.discard();
    else if (event === "error") {
      message = await stoppedMessage(data);
      if (!message) throw new Error(data.error.message);
      turn.finish(message);
    }
    else if (event === "done") {
      message = data.message;
      turn.finish(message);
      if (target === view && data.session?.title !== session?.title) setSession(data.session);
    }
  }
  if (!message) throw new Error(t("The connection closed before the answer was complete. Try again."));
  return message;
}

/** The answer of a session that was stopped, as it is stored; null for one that failed. */
async function stoppedMessage({ session_id: id }) {
  const found = id && (await get(`session/${encodeURIComponent(id)}`).catch(() => null));
  const last = found?.history.at(-1);
  return last?.status === "cancelled" ? last : null;
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
  target.submit.hidden = busy;
  target.stop.hidden = !busy;
  if (busy) announce(t("Searching the documents."));
}

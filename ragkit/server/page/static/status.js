// The view of the knowledge base: ways to add documents, jobs, sources, documents, contents and settings.

import { announce, button, byId, confirmAction, formatBytes, h, plain, sourceName } from "./dom.js";
import { buildPath, get, send } from "./api.js";
import { intakeSection } from "./intake.js";
import { failureList, isActive, jobList, nameIn, onJobChange, refreshJobs, trackJob } from "./jobs.js";
import { openPassage } from "./passage.js";
import { locale, t, tn } from "./words.js";

const KINDS = { path: t("folder of the server"), url: t("web page"), added: t("added by a program") };

export async function showStatus() {
  const facts = h("section", { "aria-label": t("Facts") }, h("p", { class: "waiting" }, t("Loading")));
  const intake = h("div", {});
  const sources = h("section", { "aria-labelledby": "sources-title", hidden: true });
  const documents = h("section", { "aria-labelledby": "documents-title" });
  const view = h("div", { class: "view" }, h("h1", {}, t("Knowledge base")), intake, sources, documents, facts);
  byId("main").replaceChildren(view);
  document.title = `${t("Knowledge base")} - ragkit`;
  let known = null;
  let reloadDocuments = null;
  const load = async () => {
    try {
      const status = known.exists ? await get("status") : null;
      facts.replaceChildren(...(status ? renderStatus(status, known.uploads.source) : [h("p", {}, t("There is no document yet."))]));
      if (!status) return;
      reloadDocuments ??= listDocuments(documents, known);
      reloadDocuments();
      announce(`${tn("{n} document|{n} documents", status.documents)}, ${tn("{n} passage|{n} passages", status.chunks)}.`);
    } catch (error) {
      facts.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message)));
    }
  };
  try {
    known = await get("sources");
  } catch (error) {
    facts.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message)));
    return;
  }
  const jobs = jobList(known.uploads.source);
  intake.append(intakeSection(known, known.exists), jobs.element);
  renderSources(sources, known);
  const end = onJobChange(async (job) => {
    if (!view.isConnected) return end();
    jobs.render();
    if (isActive(job)) return;
    const again = await get("sources").catch(() => null);
    if (!again || !view.isConnected) return;
    Object.assign(known, again);
    renderSources(sources, known);
    load();
  });
  load();
  refreshJobs().catch(() => null); // the other parts of the view say what is wrong
}

function renderSources(section, known) {
  const { sources, can_change: canChange } = known;
  section.hidden = !sources.length;
  const line = h("p", { class: "trouble", role: "alert", hidden: true });
  section.replaceChildren(h("h2", { id: "sources-title" }, t("Sources")), line, h("ul", { class: "rows" }, sources.map((source) => {
    const name = source.kind === "uploads" ? t("Uploaded files") : source.source;
    return h("li", {}, h("div", {}, source.kind === "uploads" ? h("span", { class: "file" }, name) : sourceName(source.source),
      h("p", { class: "where" }, [KINDS[source.kind], tn("{n} file|{n} files", source.files), source.failed > 0 && t("{n} not readable", { n: source.failed })].filter(Boolean).join(", "))),
    canChange && h("div", { class: "tools" },
      source.kind !== "added" && button(t("Update"), attempt(line, () => send("POST", "jobs", { sources: [source.id], retry_failed: true })), { "aria-label": plain(t("Update {name}", { name })), title: t("Index new, changed and deleted files") }),
      button(t("Remove"), attempt(line, async () => {
        const text = source.kind === "uploads" ? t("All uploaded files are deleted, and their passages are removed from the index.") : t("Its passages are removed from the index. The original stays where it is.");
        return (await confirmAction(plain(t("Remove {name}?", { name })), text, t("Remove"))) && send("DELETE", `sources/${encodeURIComponent(source.id)}`);
      }), { "aria-label": plain(t("Remove {name}", { name })) })));
  })));
}

/** A listener that starts a job and shows it; `line` shows why it does not start. */
function attempt(line, start) {
  return async () => {
    line.hidden = true;
    try {
      const job = await start();
      if (job) trackJob(job);
    } catch (error) {
      line.textContent = plain(error.message);
      line.hidden = false;
    }
  };
}

function renderStatus(status, uploads) {
  const { split = {}, embed = {} } = status.settings ?? {};
  const row = (term, value) => value !== undefined && value !== null && value !== "" && [h("dt", {}, term), h("dd", {}, value)];
  const cut = split.name && `${split.name}, ${split.chunk_size} ${split.unit ?? ""}, overlap ${split.chunk_overlap}`;
  return [
    h("ul", { class: "counts" }, [[t("Documents"), status.documents], [t("Passages"), status.chunks], [t("Vectors"), status.vectors], [t("Not readable"), status.failed, true], [t("Changed since"), status.stale, true]].map(([label, value, isTrouble]) =>
      h("li", { class: value && isTrouble ? "warn" : null }, h("strong", {}, Number(value ?? 0).toLocaleString(locale)), ` ${label}`))),
    freshness(status),
    h("dl", { class: "facts" }, status.database ? databaseRows(status.database, row) : row(t("Directory"), plain(status.kb)),
      row(t("Pipeline"), plain(status.pipeline)), row(t("Splitter"), cut && plain(cut)), row(t("Embedder"), embed.fingerprint && plain(embed.fingerprint)),
      row(t("Store"), plain(typeof status.store === "object" ? status.store?.name : status.store)), row(t("On disk"), formatBytes(status.bytes ?? 0)), row(t("Generation"), status.generation),
      row(t("Models"), (status.server?.models ?? []).map((model) => plain(model.id ?? model)).join(", ")), row(t("Server"), status.server?.version && `ragkit ${plain(status.server.version)}`)),
    failures(status.failures ?? [], uploads),
  ].filter(Boolean);
}

/** Where the knowledge base is, how far this server is behind, and the processes that use it. */
function databaseRows(database, row) {
  const lag = (behind) => behind ? tn("{n} publication behind|{n} publications behind", behind) : t("up to date");
  return [row(t("Database"), plain(`${database.name} on ${database.host}, schema ${database.schema}`)),
    row(t("Publication"), `${database.publication}, ${lag(database.generations_behind)}`),
    row(t("Processes"), database.replicas.map((one) => h("div", {}, plain(`${one.kind} ${one.pid} on ${one.host}, seen ${Math.round(one.seen_seconds)} s ago`), one.generations_behind ? `, ${lag(one.generations_behind)}` : "")))];
}

function freshness(status) {
  const behind = status.stale || (status.freshness && status.freshness.current === false);
  return h("p", { class: behind ? "note warn" : "note good" }, behind
    ? t("Files have changed since they were indexed. Update their sources.")
    : t("All indexed files are unchanged."));
}

function failures(list, uploads) {
  if (!list.length) return null;
  return h("section", { "aria-labelledby": "failures-title" }, h("h2", { id: "failures-title" }, t("Could not be read")), failureList(list, uploads));
}

/** Fills the section of documents; returns a function that loads them again. */
function listDocuments(section, known) {
  const line = h("p", { class: "trouble", role: "alert", hidden: true });
  const rows = h("tbody");
  const more = h("div", { class: "more" });
  const filter = h("input", { type: "search", id: "filter", placeholder: t("Filter by name"), "aria-label": t("Filter documents by name"), autocomplete: "off" });
  let asked = 0;
  const load = async (cursor) => {
    asked += 1;
    const mine = asked;
    const found = await get(buildPath("documents", { limit: 50, cursor, q: filter.value.trim() })).catch((error) => ({ error: error.message }));
    if (mine !== asked) return;
    const hadFocus = rows.contains(document.activeElement);
    if (!cursor) rows.replaceChildren();
    if (hadFocus && !cursor) filter.focus({ preventScroll: true });
    rows.append(...(found.documents ?? []).map((row) => documentRow(row, known, line)));
    if (found.error) more.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(found.error)));
    else if (!rows.childElementCount) more.replaceChildren(h("p", { class: "empty" }, filter.value.trim() ? t("No documents match.") : t("There is no document yet.")));
    else more.replaceChildren(...(found.next ? [button(t("Show more"), () => load(found.next))] : []));
  };
  filter.addEventListener("input", () => load(""));
  section.replaceChildren(h("div", { class: "section-head" }, h("h2", { id: "documents-title" }, t("Documents")), filter),
    h("div", { class: "table", role: "region", tabindex: 0, "aria-label": t("Table of documents") }, h("table", { class: "documents" },
      h("thead", {}, h("tr", {}, [t("Document"), t("Format"), t("Passages"), t("Characters")].map((label) => h("th", { scope: "col" }, label)), known.can_change && h("th", { scope: "col" }, h("span", { class: "unseen" }, t("Actions"))))), rows)), line, more);
  return () => load("");
}

function documentRow(row, known, line) {
  const open = (event) => openPassage({ source: row.source, document_id: row.id }, event.currentTarget);
  const path = `documents/${encodeURIComponent(row.id)}`;
  const uploads = known.uploads.source;
  const isUploaded = row.source.startsWith(`${uploads}/`);
  const remove = async () => {
    const text = isUploaded ? t("The uploaded file is deleted, and its passages are removed from the index.") : t("Its passages are removed from the index. The original stays where it is: the next update of its source brings it back.");
    return (await confirmAction(plain(t("Delete {name}?", { name: shortName(row.source) })), text, t("Delete"))) && send("DELETE", path);
  };
  return h("tr", {}, h("td", {}, h("button", { type: "button", class: "plain", on: { click: open } }, sourceName(nameIn(uploads, row.source)))),
    h("td", {}, plain(row.format)), h("td", { class: "number" }, Number(row.chunks ?? 0).toLocaleString(locale)), h("td", { class: "number" }, Number(row.characters ?? 0).toLocaleString(locale)),
    known.can_change && h("td", {}, h("div", { class: "tools" },
      button(t("Index again"), attempt(line, () => send("POST", `${path}/index`)), { "aria-label": plain(t("Index {name} again", { name: shortName(row.source) })) }),
      button(t("Delete"), attempt(line, remove), { "aria-label": plain(t("Delete {name}", { name: shortName(row.source) })) }))));
}

const shortName = (source) => source.slice(source.lastIndexOf("/", source.length - 2) + 1);

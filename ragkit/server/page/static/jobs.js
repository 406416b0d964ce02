// Jobs of the server: progress, failures with hints, cancel, confirm, resume. They go on while other views are shown.

import { announce, button, formatDollars, formatNumber, formatSeconds, h, plain, sourceName } from "./dom.js";
import { buildPath, get, send, streamEvents } from "./api.js";
import { t, tn } from "./words.js";

const RETRY_MS = 2000; // milliseconds between two attempts to follow a job
const ACTIVE = ["queued", "running"];
const NAMES = { index: t("Indexing"), remove: t("Removing"), dry_run: t("Estimating") };
const WAITING = {
  starting: t("Starting"),
  waiting: t("Waiting: another process writes to the knowledge base"),
  writing: t("Writing the index"),
};

const known = new Map(); // id -> job
const followed = new Set(); // ids
const listeners = new Set();

/** Calls `listener(job)` at every change of a job; returns a function that ends that. */
export function onJobChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const isActive = (job) => ACTIVE.includes(job.status);

/** Shows a job, and its progress to the end. */
export function trackJob(job) {
  const before = known.get(job.id);
  known.set(job.id, job);
  if (before && !isActive(job) && isActive(before)) announce(summary(job));
  listeners.forEach((listener) => listener(job));
  if (isActive(job)) follow(job.id);
}

/** Loads the latest jobs. */
export async function refreshJobs() {
  const { jobs } = await get(buildPath("jobs", { limit: 20 }));
  for (const job of jobs.reverse()) trackJob(job);
}

async function follow(id) {
  if (followed.has(id)) return;
  followed.add(id);
  try {
    while (isActive(known.get(id))) {
      try {
        for await (const { data } of streamEvents(`jobs/${encodeURIComponent(id)}/events`)) trackJob(data);
      } catch (error) {
        if (error.status >= 400 && error.status < 500 && error.status !== 429) return;
      }
      if (isActive(known.get(id))) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  } finally {
    followed.delete(id);
  }
}

/** The jobs that run, wait or ask for something, and the latest of the others. `uploads`: the folder of uploads. */
export function jobList(uploads) {
  const cards = new Map(); // id -> JobCard
  const list = h("ul", { class: "jobs", "aria-label": t("Jobs") });
  const render = () => {
    const jobs = [...known.values()].sort((a, b) => (a.created < b.created ? 1 : -1));
    const latest = jobs.find((job) => !isActive(job) && job.status !== "needs_confirmation");
    const shown = jobs.filter((job) => isActive(job) || job.status === "needs_confirmation" || job === latest);
    for (const [id, card] of cards) {
      if (shown.some((job) => job.id === id)) continue;
      card.element.remove();
      cards.delete(id);
    }
    for (const [at, job] of shown.entries()) {
      if (!cards.has(job.id)) cards.set(job.id, new JobCard(uploads));
      const card = cards.get(job.id);
      card.update(job);
      if (list.children[at] !== card.element) list.insertBefore(card.element, list.children[at] ?? null);
    }
    list.hidden = !shown.length;
  };
  render();
  return { element: list, render };
}

/** One job, updated in place, so that the focus stays on its buttons. */
class JobCard {
  constructor(uploads) {
    this.uploads = uploads;
    this.title = h("p", { class: "job-title" });
    this.state = h("p", { class: "state" });
    this.fill = h("span", { class: "fill" });
    this.track = h("span", { class: "track", role: "progressbar", "aria-label": t("Work done"), "aria-valuemin": 0, "aria-valuemax": 100 }, this.fill);
    this.tools = h("div", { class: "tools" });
    this.failures = h("div", {});
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    this.element = h("li", { class: "job" }, h("div", { class: "job-head" }, this.title, this.tools), this.track, this.state, this.trouble, this.failures);
    this.shown = "";
    this.failureCount = -1;
  }

  update(job) {
    const share = Math.floor(100 * (job.progress?.share ?? 0));
    this.track.hidden = !isActive(job);
    // nothing is embedded yet: how long it takes is not known
    this.track.classList.toggle("unknown", !job.progress?.share);
    if (job.progress?.share) this.track.setAttribute("aria-valuenow", share);
    else this.track.removeAttribute("aria-valuenow");
    this.fill.style.setProperty("--share", `${share}%`);
    this.state.textContent = isActive(job) ? progress(job) : summary(job);
    this.state.classList.toggle("trouble", job.status === "failed");
    const shown = `${job.status} ${job.cancelling}`;
    if (shown !== this.shown) {
      this.shown = shown;
      this.element.className = `job ${job.status}`;
      this.title.replaceChildren(...titleOf(job, this.uploads));
      this.showButtons(job);
    }
    if (job.failures.length !== this.failureCount) {
      this.failureCount = job.failures.length;
      this.failures.replaceChildren(...failureList(job.failures, this.uploads));
    }
  }

  showButtons(job) {
    const hadFocus = this.tools.contains(document.activeElement);
    const act = (path, body) => async () => {
      this.trouble.hidden = true;
      try {
        trackJob(await send("POST", `jobs/${encodeURIComponent(job.id)}/${path}`, body));
      } catch (error) {
        this.trouble.textContent = plain(error.message);
        this.trouble.hidden = false;
      }
    };
    // a little more than the estimate: it counts tokens without those of retries
    const limit = job.estimate_usd === null ? null : job.estimate_usd * 1.25;
    this.tools.replaceChildren(...[
      job.status === "needs_confirmation" && button(job.estimate_usd === null ? t("Index at unknown cost") : t("Index for about {cost}", { cost: formatDollars(job.estimate_usd) }), act("resume", { max_cost_usd: limit }), { class: "first" }),
      (job.status === "cancelled" || job.status === "failed") && button(t("Resume"), act("resume", { max_cost_usd: job.max_cost_usd })),
      (isActive(job) || job.status === "needs_confirmation") && button(job.cancelling ? t("Cancelling") : t("Cancel"), act("cancel")),
    ].filter(Boolean));
    if (hadFocus) (this.tools.querySelector("button") ?? this.element.closest("main"))?.focus({ preventScroll: true });
  }
}

function titleOf(job, uploads) {
  const names = job.sources.slice(0, 3).flatMap((source, at) => [at > 0 && ", ", source === uploads ? t("uploaded files") : sourceName(nameIn(uploads, source))]);
  const more = job.sources.length > 3 && t(" and {n} more", { n: job.sources.length - 3 });
  return [job.status === "done" && job.kind === "index" ? t("Indexed") : job.status === "done" && job.kind === "remove" ? t("Removed") : NAMES[job.kind], " ", ...names, more].filter(Boolean);
}

function progress(job) {
  if (job.cancelling) return t("Stopping after the current file");
  if (job.status === "queued") return t("Waiting for the jobs before it");
  const { phase, files, files_read: read, chunks, seconds_left: left, share } = job.progress ?? { phase: "starting" };
  if (WAITING[phase]) return WAITING[phase];
  if (share >= 1) return WAITING.writing;
  const time = left === null ? "" : `, ${t("{time} left", { time: left < 1 ? t("less than a second") : t("about {time}", { time: left <= 59 ? `${Math.ceil(left)} s` : formatSeconds(Math.ceil(left)) }) })}`;
  return `${tn("{read} of {n} file|{read} of {n} files", files, { read: formatNumber(read) })}, ${tn("{n} passage|{n} passages", chunks)}${time}`;
}

/** How a job ended, in one line. */
function summary(job) {
  if (job.status === "needs_confirmation") return job.estimate_usd === null ? t("What the index would cost is not known. Nothing was sent to the embedder yet.") : t("The index would cost about {cost}. Nothing was sent to the embedder yet.", { cost: formatDollars(job.estimate_usd) });
  if (job.status === "cancelled") return t("Cancelled. What was embedded is kept: Resume goes on from there.");
  if (job.status === "failed") return plain(job.error?.message ?? t("The job failed."));
  if (job.kind === "dry_run") return t("It would cost {cost}.", { cost: formatDollars(job.estimate_usd) });
  const files = job.report?.files;
  if (!files) return t("Done.");
  const parts = ["added", "updated", "unchanged", "removed", "failed", "skipped"].filter((key) => files[key]).map((key) => t(`{n} ${key}`, { n: formatNumber(files[key]) }));
  return `${parts.length ? `${t("Files:")} ${parts.join(", ")}` : t("No files")}. ${formatSeconds(job.report.seconds ?? 0)}.`;
}

/** A source by its name, without the folder of uploads. */
export const nameIn = (uploads, source) => (source.startsWith(`${uploads}/`) ? source.slice(uploads.length + 1) : source);

/** Files that could not be indexed: what is wrong with each, and what to do. */
export function failureList(list, uploads) {
  if (!list.length) return [];
  return [h("ul", { class: "failures", "aria-label": t("Files that could not be read") }, list.map((failure) => h("li", {}, sourceName(nameIn(uploads, failure.source)),
    h("p", { class: "trouble" }, plain(failure.error)), failure.hint && h("p", { class: "hint" }, plain(failure.hint)))))];
}

// Sends files to the server. The queue goes on while other views are shown.

import { announce, formatBytes } from "./dom.js";
import { buildPath, get, send, sendFile } from "./api.js";
import { trackJob } from "./jobs.js";
import { t, tn } from "./words.js";

const PARALLEL = 3; // files that are sent at the same time
const MAX_DEPTH = 16; // folders, as on the server

/** The files that were chosen together: {queue, total, sent, replaced, refused: [{name, error}], hidden, ended, stopped, error}. */
let batch = null;
const listeners = new Set();

export const currentBatch = () => batch;

/** Calls `listener` at every change; returns a function that ends that. */
export function onUploadChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const notify = () => listeners.forEach((listener) => listener());

/** Sends files, [{name, file}], and indexes them. `hidden`: how many hidden ones were left out. */
export function sendFiles(files, hidden = 0) {
  if (!files.length && !hidden) return;
  const isNew = !batch || batch.ended;
  if (isNew) batch = { queue: [], total: 0, sent: 0, replaced: 0, refused: [], hidden: 0, ended: false, stopped: false, error: "", abort: new AbortController() };
  batch.queue.push(...files);
  batch.total += files.length;
  batch.hidden += hidden;
  notify();
  if (isNew) run(batch);
}

/** Stops sending. What was sent stays on the server. */
export function stopSending() {
  if (!batch || batch.ended) return;
  batch.stopped = true;
  batch.queue.length = 0;
  batch.abort.abort();
}

/** Indexes the files that were sent. */
export async function indexUploads() {
  const { uploads } = await get("sources");
  trackJob(await send("POST", "jobs", { sources: [uploads.id] }));
}

async function run(current) {
  announce(tn("Sending {n} file.|Sending {n} files.", current.total));
  try {
    const { uploads } = await get("sources");
    await Promise.all(Array.from({ length: PARALLEL }, () => sendQueued(current, uploads)));
    current.ended = true;
    if (current.sent && !current.stopped) await indexUploads();
  } catch (error) {
    current.error = error.message;
  }
  current.ended = true;
  notify();
  announce(current.stopped ? t("Stopped.") : [tn("{n} file was sent|{n} files were sent", current.sent), current.refused.length && t("{n} refused", { n: current.refused.length })].filter(Boolean).join(", "));
}

async function sendQueued(current, limits) {
  for (let item = current.queue.shift(); item; item = current.queue.shift()) {
    try {
      checkSize(item.file, limits);
      const { replaced } = await sendFile(buildPath("documents", { name: item.name, index: false }), item.file, current.abort.signal);
      current.sent += 1;
      current.replaced += Number(replaced);
    } catch (error) {
      if (current.stopped) return;
      if (error.status === 507) current.queue.length = 0; // no room: further files would be refused as well
      current.refused.push({ name: item.name, error: error.message });
    }
    notify();
  }
}

/** The server would close the connection while a file is sent that is too large: its answer might be lost. */
function checkSize(file, limits) {
  if (!file.size) throw new Error(t("The file is empty"));
  if (file.size > limits.max_file_bytes) throw new Error(t("The file has {size}; at most {limit} are allowed", { size: formatBytes(file.size), limit: formatBytes(limits.max_file_bytes) }));
}

/** Sends what was chosen with a file picker, with the path below a chosen folder. */
export function sendChosen(list) {
  const files = [...list].map((file) => ({ name: file.webkitRelativePath || file.name, file }));
  const shown = files.filter(({ name }) => !isHidden(name));
  sendFiles(shown, files.length - shown.length);
}

/** Sends dropped files and folders, with all files below them. */
export async function sendDropped(transfer) {
  // entries must be taken before the first await: the browser empties the list afterwards
  const entries = [...transfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry() ?? item.getAsFile());
  const found = { files: [], hidden: 0 };
  for (const entry of entries) await collect(entry, found, 0);
  sendFiles(found.files, found.hidden);
}

const isHidden = (name) => name.split("/").some((part) => part.startsWith("."));

async function collect(entry, found, depth) {
  if (entry instanceof File) found.files.push({ name: entry.name, file: entry });
  else if (entry?.name.startsWith(".")) found.hidden += 1;
  else if (entry?.isFile) found.files.push({ name: entry.fullPath.slice(1), file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
  else if (entry?.isDirectory && depth < MAX_DEPTH) {
    const reader = entry.createReader();
    for (let some = await readSome(reader); some.length; some = await readSome(reader)) { // at most 100 at a time
      for (const child of some) await collect(child, found, depth + 1);
    }
  }
}

const readSome = (reader) => new Promise((resolve, reject) => reader.readEntries(resolve, reject));

// Ways to bring documents in: drop, file picker, web page, folder of the machine of the server.

import { button, formatBytes, h, plain } from "./dom.js";
import { send } from "./api.js";
import { trackJob } from "./jobs.js";
import { currentBatch, indexUploads, onUploadChange, sendChosen, stopSending } from "./uploads.js";
import { t, tn } from "./words.js";

/** The section that brings documents in. `sources`: the response of GET /sources; `compact`: show less at first. */
export function intakeSection(sources, compact = false) {
  if (!sources.can_change) return h("p", { class: "note" }, t("Only the owner of this server may add documents."));
  const { uploads, roots } = sources;
  const files = picker({ multiple: true });
  const folder = picker({ webkitdirectory: true });
  const zone = h("div", { class: "drop", id: "drop" },
    h("p", { class: "drop-title" }, t("Drop files or folders here")),
    h("div", { class: "tools" }, button(t("Choose files"), () => files.click(), { class: "first", id: "choose-files" }), button(t("Choose a folder"), () => folder.click()), files, folder),
    h("p", { class: "hint" }, t("Up to {size} a file; {left} left. Hidden files and secrets are left out.", { size: formatBytes(uploads.max_file_bytes), left: formatBytes(Math.max(0, uploads.max_bytes - uploads.bytes)) })));
  const others = [
    adder({ id: "add-url", label: t("Web page"), placeholder: "https://example.org/manual.html", toBody: (value) => ({ url: /^[a-z]+:\/\//i.test(value) ? value : `https://${value}` }) }),
    roots.length > 0 && adder({ id: "add-path", label: t("Folder or file of this machine"), value: roots[0], hint: t("Below {folders}. It stays where it is.", { folders: roots.join(", ") }), toBody: (value) => ({ path: value }) }),
  ];
  return h("section", { class: "intake", "aria-label": t("Add documents") }, zone, uploadProgress(),
    compact ? h("details", {}, h("summary", {}, roots.length ? t("Add a web page, or a folder of this machine") : t("Add a web page")), others) : others);
}

function picker(options) {
  const field = h("input", { type: "file", ...options, hidden: true, tabindex: -1 });
  field.addEventListener("change", () => {
    sendChosen(field.files);
    field.value = ""; // the same file can be chosen again
  });
  return field;
}

function adder({ id, label, value = "", placeholder = null, hint = "", toBody }) {
  const field = h("input", { type: "text", id, name: id, value, placeholder, autocomplete: "off", spellcheck: "false", maxlength: 4000, "aria-describedby": hint ? `${id}-hint` : null });
  const line = h("p", { class: "trouble", role: "alert", hidden: true });
  const submit = async (event) => {
    event.preventDefault();
    line.hidden = true;
    if (!field.value.trim()) return field.focus();
    try {
      trackJob(await send("POST", "sources", toBody(field.value.trim())));
      field.value = value;
    } catch (error) {
      line.textContent = plain(error.message);
      line.hidden = false;
    }
  };
  return h("form", { class: "adder", on: { submit } }, h("label", { for: id }, label), field, h("button", { type: "submit" }, t("Add")), hint && h("p", { class: "hint", id: `${id}-hint` }, plain(hint)), line);
}

/** What is being sent, and what was refused. */
function uploadProgress() {
  const state = h("p", { class: "state" });
  const fill = h("span", { class: "fill" });
  const track = h("span", { class: "track", role: "progressbar", "aria-label": t("Files sent"), "aria-valuemin": 0, "aria-valuemax": 100 }, fill);
  const stop = button(t("Stop"), stopSending);
  const index = button(t("Index them"), async () => {
    index.hidden = true;
    await indexUploads().catch((error) => { state.textContent = plain(error.message); });
  });
  const refused = h("ul", { class: "failures", "aria-label": t("Refused files") });
  const box = h("div", { class: "job" }, h("div", { class: "job-head" }, state, h("div", { class: "tools" }, stop, index)), track, refused);
  let count = 0;
  const render = () => {
    const batch = currentBatch();
    box.hidden = !batch || (batch.ended && !batch.refused.length && !batch.stopped && !batch.error && !batch.hidden && !batch.replaced);
    if (!batch) return;
    const done = batch.sent + batch.refused.length;
    const share = batch.total ? Math.round((100 * done) / batch.total) : 0;
    state.textContent = stateText(batch);
    track.hidden = stop.hidden = batch.ended;
    index.hidden = !(batch.ended && batch.stopped && batch.sent);
    track.setAttribute("aria-valuenow", share);
    fill.style.setProperty("--share", `${share}%`);
    if (batch.refused.length !== count) {
      count = batch.refused.length;
      refused.replaceChildren(...batch.refused.map(({ name, error }) => h("li", {}, h("bdi", { class: "file" }, plain(name)), h("p", { class: "trouble" }, plain(error)))));
    }
    refused.hidden = !count;
  };
  const end = onUploadChange(() => (box.isConnected ? render() : end()));
  render();
  return box;
}

function stateText(batch) {
  const left = batch.hidden ? ` ${tn("{n} hidden file was left out.|{n} hidden files were left out.", batch.hidden)}` : "";
  if (batch.error) return plain(batch.error);
  if (!batch.ended) return t("Sending files: {n} of {total}.", { n: batch.sent, total: batch.total }) + left;
  if (batch.stopped) return t("Stopped: {n} of {total} files were sent.", { n: batch.sent, total: batch.total }) + left;
  return [tn("{n} file was sent|{n} files were sent", batch.sent), batch.refused.length && t("{n} refused", { n: batch.refused.length }), batch.replaced && t("{n} replaced one of the same name", { n: batch.replaced })].filter(Boolean).join(", ") + `.${left}`;
}
